"""Where real samples lie, and what a test needs of the machine."""

import os
import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings

from . import same_digits  # noqa: F401 - before anything that imports numpy

# isort: split

from iotrace.replay.targets import block_device
from iotrace.schemas import Recording

from . import skips
from .hostile_names import write_recording

SAMPLES = Path(__file__).parents[2] / "shared" / "samples"

# How long an example takes says more of the machine than of the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of this suite."""
    parser.addoption("--renew-plans", action="store_true", help="write tests/fixtures/plan again")
    parser.addoption("--renew-transcripts", action="store_true", help="write tests/cli/transcripts again")


class _Skips:
    """Fails a run in which a test was skipped that may not be."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.reasons.append(skips.reason_of(report))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.reasons.append(skips.reason_of(report))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if skips.unexpected(self.reasons) and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if unexpected := sorted(set(skips.unexpected(self.reasons))):
            terminalreporter.section("skipped, and not allowed to be (see tests/skips.py)")
            terminalreporter.write_line("\n".join(unexpected))


def pytest_configure(config: pytest.Config) -> None:
    """Hold the skips of the whole run, in the process that sees them all, against the list of those in order."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts its background jobs like this, and every program that a test starts would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if block_device.filesystem_of(Path(tempfile.gettempdir())) == "tmpfs":
        # So it is on Debian 13 and Fedora, and a replay refuses to measure memory.
        os.environ["TMPDIR"] = tempfile.tempdir = "/var/tmp"
    # The settings of whoever runs the tests are none of theirs.
    os.environ["IOTRACE_CONFIG"] = str(Path(__file__).parent / "fixtures" / "settings.toml")
    if os.environ.get(skips.VARIABLE) == "1" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Skips())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run the tests of one ``xdist_group`` one at a time, whichever worker has them: they share devices or the trace.

    pytest-xdist itself would, by a suffix to names that pytest 9.2 no longer takes from it.
    """
    with ExitStack() as turns:
        for group in sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")}):
            lock = turns.enter_context(
                (Path(tempfile.gettempdir()) / f"iotrace-tests-{group}.lock").open("w")
            )
            if sys.platform != "win32":
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX)
        return (yield)


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
