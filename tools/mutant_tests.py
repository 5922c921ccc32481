"""Runs tests in forks of a process that has loaded the libraries: all of them once, then those of one function.

`record` notes which functions of the modules in question each test calls and how long it takes. `fails` then runs only
the tests that call a function, the quickest first, until one fails. What a fixture of a whole file or session calls
counts for all tests of that file; a test that starts a program may call anything.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

# What every test file imports, and forks need not import again.
import duckdb  # noqa: F401
import numpy as np  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pytest
import scipy.ndimage
import scipy.optimize
import scipy.stats  # noqa: F401

Places = frozenset[tuple[str, int]]

WAIT_S: Final = 900
_ANYTHING: Final = ("", 0)


@dataclass(frozen=True)
class Tests:
    """What one group's tests call, as (module, first line of a function), and how long each takes, in seconds."""

    files: list[str]
    calls: Mapping[str, Places]
    seconds: Mapping[str, float]

    def calling(self, module: str, first: int, last: int) -> list[str]:
        """The tests that call what lies in these lines of the module, the quickest first."""
        return self._sorted(
            name
            for name, places in self.calls.items()
            if _ANYTHING in places or any(path == module and first <= line <= last for path, line in places)
        )

    def calling_any(self) -> list[str]:
        """The tests that call anything in the group's modules."""
        return self._sorted(name for name, places in self.calls.items() if places)

    def _sorted(self, names: Iterable[str]) -> list[str]:
        return sorted(names, key=lambda name: self.seconds[name])


@dataclass(eq=False)
class _Recorder:
    """A plugin of pytest that notes what each test calls in the modules of a checkout."""

    modules: Mapping[str, str]
    """By the name of the file that is imported."""
    calls: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    shared: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    now: set[tuple[str, int]] = field(default_factory=set)

    def trace(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call; nothing is followed line by line."""
        module = self.modules.get(frame.f_code.co_filename)
        if event == "call" and module is not None:
            self.now.add((module, frame.f_code.co_firstlineno))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None]:
        """One test."""
        self.now = self.calls.setdefault(item.nodeid, set())
        began = time.process_time()
        yield
        self.seconds[item.nodeid] = time.process_time() - began

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None]:
        """What lasts longer than one test."""
        before = self.now
        if fixturedef.scope != "function":
            self.now = self.shared.setdefault(request.node.nodeid.split("::")[0], set())
        yield
        self.now = before

    def result(self) -> dict[str, Any]:
        """Calls and seconds, as JSON has them."""
        every = {
            name: places | self.shared.get(name.split("::")[0], set()) | self.shared.get("", set())
            for name, places in self.calls.items()
        }
        return {"calls": {name: sorted(places) for name, places in every.items()}, "seconds": self.seconds}


class _Chosen:
    """A plugin of pytest that runs some tests in a given order."""

    def __init__(self, names: list[str]) -> None:
        self.place = {name: index for index, name in enumerate(names)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave the rest out."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self.place), key=lambda item: self.place[item.nodeid]
        )


def record(copy: Path, files: list[str], modules: list[Path], into: Path) -> Tests | None:
    """What each test in ``files`` calls of ``modules``, in the copy of a checkout; None if a test fails."""
    into.unlink(missing_ok=True)

    def run() -> int:
        rooms = copy / "build" / "rooms" / "iotrace"
        recorder = _Recorder({str(rooms / module): module.as_posix() for module in modules})
        started = subprocess.Popen.__init__

        def start(*args: Any, **options: Any) -> None:  # noqa: ANN401 - whatever Popen takes
            recorder.now.add(_ANYTHING)
            started(*args, **options)

        subprocess.Popen.__init__ = start  # type: ignore[method-assign]
        threading.settrace(recorder.trace)
        sys.settrace(recorder.trace)
        status = _pytest(files, recorder)
        sys.settrace(None)
        into.write_text(json.dumps(recorder.result()), "utf-8")
        return status

    if _forked(copy, run) != 0:
        return None
    noted = json.loads(into.read_text("utf-8"))
    calls = {
        name: frozenset((str(path), int(line)) for path, line in one) for name, one in noted["calls"].items()
    }
    return Tests(files, calls, noted["seconds"])


def fails(copy: Path, tests: Tests, names: list[str]) -> bool:
    """Whether one of the tests fails in the copy, takes twenty times as long as it should, or never ends."""
    if not names:
        return False
    files = sorted({name.split("::")[0] for name in names})
    seconds = 60 + 20 * sum(tests.seconds[name] for name in names)

    def run() -> int:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
        # Bytecode of a fault must not outlive it; that of everything else lies there since `record`.
        sys.dont_write_bytecode = True
        return _pytest(files, _Chosen(names))

    return _forked(copy, run) != 0


def _pytest(files: list[str], plugin: object) -> int:
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", "--basetemp", "build/tests"]
    return int(pytest.main([*options, *files], plugins=[plugin]))


def _forked(copy: Path, run: Callable[[], int]) -> int:
    """The status of ``run`` in a child whose rooms are those of the copy; its words go to a file beside that."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setsid()
            words = os.open(copy.parent / "tests.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for number in (1, 2):
                os.dup2(words, number)
            os.chdir(copy)
            rooms = str(copy / "build" / "rooms")
            sys.path[:0] = [rooms]
            os.environ["PYTHONPATH"] = rooms
            status = run()
        except BaseException:  # noqa: BLE001 - a fork that lives on would go on as its parent
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    ended = time.monotonic() + WAIT_S
    while time.monotonic() < ended:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 1
