"""Being an ordinary user where the tests run as root, and folders that such a user may enter."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

USER: Final = 65534
"""Nobody."""


@contextmanager
def open_folder() -> Iterator[Path]:
    """An empty folder in which everybody may do everything; pytest's own are their user's alone."""
    places = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    place = next(place for place in places if all(is_open(folder) for folder in (place, *place.parents)))
    folder = Path(tempfile.mkdtemp(dir=place))
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_open(folder: Path) -> bool:
    return bool(folder.stat().st_mode & 0o001)


@contextmanager
def ordinary_user() -> Iterator[None]:
    """This process without root's rights over files; as it is if it has none."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(USER)
    try:
        yield
    finally:
        os.seteuid(0)


reads_this_checkout = pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() == 0 and not all(map(is_open, Path(__file__).resolve().parents)),
    reason="an ordinary user may not read this checkout",
)
"""For tests that run iotrace as an ordinary user: a checkout in root's home is root's alone."""
