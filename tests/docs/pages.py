"""The pages of the documentation, and what is written in their fenced blocks."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def command_lines(page: Path) -> Iterator[list[str]]:
    """Each `iotrace …` line of any fenced block, as words."""
    text = page.read_text("utf-8")
    for block in re.findall(r"^```\w*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("iotrace ") and "…" not in line:
                # Windows paths and backslashes are words like any other.
                words = shlex.split(line.replace("\\", "\\\\"), comments=True)
                yield words[1 : words.index(">")] if ">" in words else words[1:]
