"""Where real samples lie, and what a test needs of the machine."""

from pathlib import Path

import pytest
from hypothesis import settings

from iotrace.schemas import Recording

from .hostile_names import write_recording

SAMPLES = Path(__file__).parents[2] / "shared" / "samples"

# How long an example takes says more of the machine than of the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of this suite."""
    parser.addoption("--renew-plans", action="store_true", help="write tests/fixtures/plan again")


@pytest.fixture(scope="session")
def samples() -> Path:
    """Folder of real traces beside the checkout; tests over them are skipped by name where it is absent."""
    if not SAMPLES.is_dir():
        pytest.skip(f"no real samples at {SAMPLES}")
    return SAMPLES


@pytest.fixture(scope="session")
def hostile_recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A recording whose every name is an attack or a mishap; see ``hostile_names``. Not to be changed."""
    return write_recording(tmp_path_factory.mktemp("hostile") / "hostile.iotrace")
