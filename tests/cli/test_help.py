"""Every command explains itself in the same form, and the README knows it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from iotrace.cli.main import app

from .conftest import Result

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def commands() -> Iterator[tuple[str, ...]]:
    def walk(group: typer.core.TyperGroup, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for name, command in group.commands.items():
            if isinstance(command, typer.core.TyperGroup):
                yield from walk(command, (*path, name))
            else:
                yield (*path, name)

    yield from walk(typer.main.get_group(app), ())


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_every_command_has_help_with_an_example(
    iotrace: Callable[..., Result], path: tuple[str, ...]
) -> None:
    result = iotrace(*path, "--help")
    assert result.status == 0
    assert f"Example: iotrace {' '.join(path)}" in " ".join(result.out.split())


@pytest.mark.parametrize("path", [path for path in commands() if path != ("validate",)], ids=" ".join)
def test_every_command_is_in_the_readme(path: tuple[str, ...]) -> None:
    assert f"iotrace {' '.join(path)}" in README or f"make {' '.join(path)}" in README


def test_without_a_command_the_help_is_shown(iotrace: Callable[..., Result]) -> None:
    assert "Commands:" in iotrace().out + iotrace().err


def test_the_version_is_told(iotrace: Callable[..., Result]) -> None:
    assert iotrace("--version").out.startswith("iotrace 1.")
