"""Tables on any screen: every figure stands whole on one line, beside the name of its row, and no line is too wide."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from iotrace.analyze.present import Column, Table
from iotrace.cli import console
from iotrace.cli.show import show_table
from iotrace.schemas.text import shortened

NAMES = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=60)


@pytest.mark.parametrize("width", [40, 80, 100, 140])
@pytest.mark.parametrize("count", [1, 8, 30])
def test_what_does_not_fit_goes_below(
    width: int, count: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console.data, "_width", width)
    heads = (Column("file", is_text=True), *(Column(f"head of {place}", "MB/s") for place in range(count)))
    names = [f"E:\\a folder\\of files\\named {row:03}.mdf" for row in range(3)]
    figures = [[f"{row}{place:03},456.7 ms" for place in range(count)] for row in range(3)]
    show_table(Table(heads, [[name, *line] for name, line in zip(names, figures, strict=True)]))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(cell_len, lines)) <= width
    assert [line for line in lines if line != line.rstrip()] == []
    for row, line in enumerate(figures):
        for figure in line:
            (found,) = [one for one in lines if figure in one]
            assert found.startswith("E:")
            assert f"{row:03}.mdf" in found


def test_details_and_rows_beyond_those_shown_are_for_full(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(
        (Column("", is_text=True), Column("mean"), Column("longest", detail=True)),
        [(f"disk {row}", "1 ms", "9 ms") for row in range(5)],
        shown=2,
    )
    show_table(table)
    text = capsys.readouterr().out
    assert ("disk 1" in text, "disk 2" in text, "longest" in text, "3 more: --full" in text) == (
        True, False, False, True,
    )  # fmt: skip
    show_table(table, full=True)
    text = capsys.readouterr().out
    assert ("disk 4" in text, "longest" in text, "more" in text) == (True, True, False)


@given(NAMES, st.integers(4, 30))
def test_a_long_name_loses_its_middle_only(name: str, width: int) -> None:
    shown = shortened(name, width, cell_len)
    assert cell_len(shown) <= width
    assert shown == name or "\N{HORIZONTAL ELLIPSIS}" in shown
