"""Keeps a spreadsheet from taking a name out of a trace for a formula.

A cell that begins with =, +, -, @ (or their full-width forms), a tab or a line's end is a formula to a spreadsheet. As
OWASP advises ("CSV Injection"), an apostrophe goes before it, since quoting alone does not help. Numbers stay as they
are, also those that are text.
"""

import re
from typing import Final

_STARTS: Final = "=+-@\uff1d\uff0b\uff0d\uff20\t\r\n"
_NUMBER: Final = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
_IS_NUMBER: Final = re.compile(_NUMBER)


def defused(text: str) -> str:
    """``text`` as a cell that no spreadsheet computes."""
    return f"'{text}" if text[:1] in _STARTS and text and not _IS_NUMBER.fullmatch(text) else text


def defused_sql(column: str) -> str:
    """The same as an SQL expression over a ``column`` of text, named by one of our own words."""
    is_formula = f"{column} <> '' AND contains('{_STARTS}', left({column}, 1))"
    return (
        f"CASE WHEN {is_formula} AND NOT regexp_full_match({column}, '{_NUMBER}') "
        f"THEN '''' || {column} ELSE {column} END"
    )
