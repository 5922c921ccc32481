"""Keeps a spreadsheet from taking a name out of a trace for a formula.

A cell that begins with =, +, -, @ (or their full-width forms), a tab or a line's end is a formula to a spreadsheet. As
OWASP advises ("CSV Injection"), an apostrophe goes before it, since quoting alone does not help. The same goes for a
sign after a separator or a line's end inside of a name: where a spreadsheet is set to another separator than the
comma, a cell begins there, quoted or not. Numbers stay as they are, also those that are text.
"""

import re
from typing import Final

_BLANKS: Final = "\t\r\n"
_SIGN: Final = '((?:^|[,;|\t\r\n])"*)([=+@\uff1d\uff0b\uff0d\uff20-])'
_NUMBER: Final = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
_IS_SIGN: Final = re.compile(_SIGN)
_IS_NUMBER: Final = re.compile(_NUMBER)


def defused(text: str) -> str:
    """``text`` as a cell that no spreadsheet computes."""
    if not text or _IS_NUMBER.fullmatch(text):
        return text
    return ("'" if text[0] in _BLANKS else "") + _IS_SIGN.sub(r"\1'\2", text)


def defused_sql(column: str) -> str:
    """The same as an SQL expression over a ``column`` of text, named by one of our own words."""
    return (
        f"CASE WHEN {column} = '' OR regexp_full_match({column}, '{_NUMBER}') THEN {column} "
        f"ELSE CASE WHEN contains('{_BLANKS}', left({column}, 1)) THEN '''' ELSE '' END "
        f"|| regexp_replace({column}, '{_SIGN}', '\\1''\\2', 'g') END"
    )
