"""The Windows program, built, and a host for it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from . import windows


@pytest.fixture(scope="session")
def built() -> None:
    """The program, the stand-ins and Wine's own folder are there and up to date."""
    try:
        windows.prepare()
    except windows.NotHereError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def host(built: None, tmp_path: Path) -> Callable[..., windows.Host]:
    """Make a Windows host: its events, then what its scenario says."""

    def make(events: bytes = b"", **scenario: int | str) -> windows.Host:
        return windows.Host(tmp_path / "host", events, scenario)

    return make
