"""What the commands print on 80 columns, whole: a change of wording changes a file of ``transcripts``, read there.

Read what `.venv/bin/python -m pytest tests/cli/test_transcripts.py --renew-transcripts` has changed before it is kept.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Result

FOLDER = Path(__file__).parent / "transcripts"
BUNDLED = Path(__file__).parents[2] / "cli" / "bundled" / "pgbench.iotrace"
COMMANDS: dict[str, tuple[str, ...]] = {
    "describe": ("describe", "BUNDLED"),
    "describe_full": ("describe", "BUNDLED", "--full"),
    "incident": ("incident", "BUNDLED"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_printed(
    iotrace: Callable[..., Result],
    name: str,
    pytestconfig: pytest.Config,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = iotrace(*(BUNDLED if word == "BUNDLED" else word for word in COMMANDS[name]))
    shown = f"$ iotrace {' '.join(COMMANDS[name])}   # status {told.status}\n{told.out}"
    path = FOLDER / f"{name}.txt"
    if pytestconfig.getoption("renew_transcripts"):
        path.write_text(shown, "utf-8", newline="\n")
    assert shown == path.read_text("utf-8")


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_is_wider_than_the_screen_or_ends_in_blanks(
    iotrace: Callable[..., Result], name: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = iotrace(*(BUNDLED if word == "BUNDLED" else word for word in COMMANDS[name])).out.splitlines()
    assert len(lines) > 20
    assert [line for line in lines if line.endswith(" ")] == []
    assert max(map(len, lines)) <= width


def test_every_transcript_belongs_to_a_command() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(COMMANDS)
