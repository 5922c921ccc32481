"""Foreign words as literals of the languages a plan is written in, so that none of them is ever read as code.

Control characters are refused long before (`options`); every function here takes any other text.
"""

import re
from typing import Final

# Windows PowerShell ends a single-quoted string at any of these, not at the ASCII apostrophe alone.
_POWERSHELL_QUOTES: Final = re.compile(r"['\u2018\u2019\u201A\u201B]")
_BACKTICKS: Final = re.compile("`+")


def powershell(text: str) -> str:
    """A single-quoted PowerShell string: nothing in it is expanded, every kind of single quote is doubled."""
    return "'" + _POWERSHELL_QUOTES.sub(lambda found: found.group() * 2, text) + "'"


def tsql(text: str) -> str:
    """A Unicode string literal of T-SQL."""
    return "N'" + text.replace("'", "''") + "'"


def tsql_identifier(name: str) -> str:
    """A delimited identifier of T-SQL."""
    return "[" + name.replace("]", "]]") + "]"


def cmd(text: str) -> str:
    """One argument as typed at a cmd prompt, for programs that split their command line as Microsoft's C library does.

    Everything stands between double quotes, where cmd takes ``& | < > ^ ( )`` literally. A quote is doubled, which both
    cmd and the library read as one quote inside. Backslashes before a quote are doubled, as the library wants it.
    A percent sign is taken out of the quotes and escaped, so that no variable name can form around it.
    """
    quoted = re.sub(r'(\\*)("|$)', lambda found: found[1] * 2 + found[2] * 2, text)
    return '"' + quoted.replace("%", '"^%"') + '"'


def markdown(text: str) -> str:
    """Text as inline code of Markdown, whatever backticks it holds."""
    longest = max((len(found) for found in _BACKTICKS.findall(text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"
