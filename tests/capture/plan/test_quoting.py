"""Whatever a word holds, the language it lands in reads the same word back: each is read here after its own rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.capture.plan import writing

WORDS = (
    "SERVER\\INST",
    "tcp:host,1433",
    "np:\\\\host\\pipe\\sql\\query",
    "a b",
    "O'Brien''s",
    "\N{LEFT SINGLE QUOTATION MARK}x\N{RIGHT SINGLE QUOTATION MARK}; Stop-Computer #",
    "$(calc) `n ${env:PATH}",
    "%PATH%",
    '" & calc & "',
    'back\\"slash\\',
    "[a]]b]; DROP DATABASE x --",
    "",
)
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)


def read_powershell(literal: str) -> str:
    """A verbatim string by the language's specification, 2.3.5.2: five characters quote, doubled they stand."""
    quotes = "'\u2018\u2019\u201a\u201b"
    assert literal[0] in quotes
    read, position = "", 1
    while literal[position] not in quotes or (
        position + 1 < len(literal) and literal[position + 1] in quotes
    ):
        read += literal[position]
        position += 2 if literal[position] in quotes else 1
    assert position == len(literal) - 1, "the string ends before its end"
    return read


def read_cmd(line: str) -> list[str]:
    """Arguments of ``program LINE`` at a prompt where PATH is set: cmd first, then Microsoft's C library."""
    assert "%PATH%" not in line, "cmd would put the variable in"
    passed, quoted, position = "", False, 0
    while position < len(line):
        char = line[position]
        if char == '"':
            quoted = not quoted
        elif not quoted:
            assert char not in "&|<>()", f"cmd would act on {char}"
            if char == "^":
                position += 1
                char = line[position]
        passed += char
        position += 1
    return split_as_c_library(passed)


def split_as_c_library(line: str) -> list[str]:
    arguments, current, quoted, position, any_seen = [], "", False, 0, False
    while position < len(line):
        slashes = 0
        while position < len(line) and line[position] == "\\":
            slashes, position = slashes + 1, position + 1
        if position < len(line) and line[position] == '"':
            current += "\\" * (slashes // 2)
            any_seen = True
            if slashes % 2:
                current += '"'
            elif quoted and line[position + 1 : position + 2] == '"':
                current, position = current + '"', position + 1
            else:
                quoted = not quoted
            position += 1
            continue
        current += "\\" * slashes
        if position < len(line):
            if line[position] in " \t" and not quoted:
                if current or any_seen:
                    arguments.append(current)
                current, any_seen = "", False
            else:
                current += line[position]
            position += 1
    return [*arguments, current] if current or any_seen else arguments


def check(word: str) -> None:
    assert read_powershell(writing.powershell(word)) == word
    assert read_cmd(writing.cmd(word)) == [word]
    literal = writing.tsql(word)
    assert (literal[:2], literal[-1]) == ("N'", "'")
    assert literal[2:-1].replace("''", "").count("'") == 0
    assert literal[2:-1].replace("''", "'") == word
    identifier = writing.tsql_identifier(word)
    assert identifier[1:-1].replace("]]", "").count("]") == 0
    assert identifier[1:-1].replace("]]", "]") == word


@pytest.mark.parametrize("word", WORDS)
def test_the_word_comes_back(word):
    check(word)


@given(TEXT)
def test_any_word_comes_back(word):
    check(word)


@pytest.mark.parametrize(("text", "expected"), [("a", "`a`"), ("a`b", "`` a`b ``"), ("``", "``` `` ```")])
def test_backticks_do_not_end_code_in_markdown(text, expected):
    assert writing.markdown(text) == expected
