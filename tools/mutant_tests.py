"""Runs tests against small faults: all of them once without any, then for each fault those that call what it changes.

The tests are imported and collected once. `Collected.record` runs them in a fork and notes which functions of the
modules in question each test calls and how long it takes. `Collected.fails` forks again, puts the changed function in
the place of the one in memory, and runs only the tests that call it, the quickest first, until one fails. What is
needed while modules are imported (constants, what decorators and tables call) is tried in a process of its own.

What a fixture of a whole file or session calls counts for all tests of that file; a test that starts a program may call
anything, and the program reads the fault from the file.
"""

import gc
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from bisect import bisect_right
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

import pytest

WAIT_S: Final = 900
RECORD_S: Final = 4 * 3600
FAULT_S: Final = 45.0
"""Processor time of the tests that are run for one fault; what they do not notice counts as a fault that survived."""
_ANYTHING: Final = ("", 0)
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+\.py)", re.MULTILINE)
_OPTIONS: Final = (
    "-x", "-q", "-p", "no:cacheprovider", "--inline-snapshot=disable", "-m", "not slow", "--basetemp", "build/tests",
)  # fmt: skip


@dataclass(frozen=True)
class Tests:
    """What one group's tests call, as (module, first line of a function), and how long each takes, in seconds."""

    calls: Mapping[str, frozenset[tuple[str, int]]]
    seconds: Mapping[str, float]
    imported: frozenset[tuple[str, int]]
    """What is called while modules are imported."""

    @classmethod
    def read(cls, path: Path) -> "Tests":
        """What `write` wrote; nothing where it did not."""
        if not path.exists():
            return cls({}, {}, frozenset())
        noted = json.loads(path.read_text("utf-8"))
        calls = {name: _places(one) for name, one in noted["calls"].items()}
        return cls(calls, noted["seconds"], _places(noted["imported"]))

    def write(self, path: Path) -> None:
        """Keep it in a file."""
        calls = {name: sorted(places) for name, places in self.calls.items()}
        noted = {"calls": calls, "seconds": dict(self.seconds), "imported": sorted(self.imported)}
        path.write_text(json.dumps(noted), "utf-8")

    def without(self, files: Collection[str]) -> "Tests":
        """All but the tests in these files."""
        calls = {name: places for name, places in self.calls.items() if name.split("::")[0] not in files}
        return replace(self, calls=calls)

    def calling(self, functions: Iterable[tuple[str, int, int]]) -> list[str]:
        """The tests that call one of these (module, first and last line)."""
        lines: dict[str, set[int]] = {}
        for module, first, last in functions:
            lines.setdefault(module, set()).update(range(first, last + 1))
        return [
            name
            for name, places in self.calls.items()
            if _ANYTHING in places or any(line in lines.get(path, ()) for path, line in places)
        ]

    def calling_any(self) -> list[str]:
        """The tests that call anything in the group's modules."""
        return [name for name, places in self.calls.items() if places]

    def affordable(self, names: Iterable[str]) -> list[str]:
        """The quickest first, and no more of them than take `FAULT_S`, but one at least."""
        found = sorted(names, key=lambda name: self.seconds[name])
        taken = list(accumulate(self.seconds[name] for name in found))
        return found[: max(bisect_right(taken, FAULT_S), 1)]


def _places(rows: list[list[Any]]) -> frozenset[tuple[str, int]]:
    return frozenset((str(path), int(line)) for path, line in rows)


@dataclass(eq=False)
class Collected:
    """A plugin of pytest that keeps the collected tests, and hands itself to ``work`` instead of running them."""

    copy: Path
    modules: Mapping[str, str]
    """By the name of the file that is imported."""
    work: Callable[["Collected"], None]
    calls: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    shared: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    now: set[tuple[str, int]] = field(default_factory=set)
    imported: set[tuple[str, int]] = field(default_factory=set)
    items: dict[str, pytest.Item] = field(default_factory=dict)
    session: pytest.Session | None = None

    def record(self, into: Path, files: Collection[str]) -> bool:
        """Run the tests of ``files`` that ``into`` does not know, and note there what they call; false if one fails."""
        known = Tests.read(into).calls
        new: dict[str, list[pytest.Item]] = {}
        for name, item in self.items.items():
            if name not in known and (file := name.split("::")[0]) in files:
                new.setdefault(file, []).append(item)
        for items in new.values():
            if _forked(self.copy, partial(self._record, items, into), RECORD_S) != 0:
                (self.copy.parent / "failed").touch()
                return False
        return True

    def _record(self, items: list[pytest.Item], into: Path) -> int:
        known, started = Tests.read(into), subprocess.Popen.__init__

        def start(*args: Any, **options: Any) -> None:  # noqa: ANN401 - whatever Popen takes
            self.now.add(_ANYTHING)
            started(*args, **options)

        subprocess.Popen.__init__ = start  # type: ignore[method-assign]
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        status = self._run(items)
        sys.settrace(None)
        shared = {file: frozenset(places) for file, places in self.shared.items()}
        every = {
            name: frozenset(places)
            | shared.get(name.split("::")[0], frozenset())
            | shared.get("", frozenset())
            for name, places in self.calls.items()
        }
        if status == 0:
            Tests(
                {**known.calls, **every}, {**known.seconds, **self.seconds}, frozenset(self.imported)
            ).write(into)
        return status

    def fails_in(self, tests: Tests, names: list[str], path: str, after: str, line: int | None) -> str | None:
        """The file of the test that fails with ``after`` as the text of the file ``path``, in which it stands already.

        None where none fails; empty where it cannot be told which did. Taking twenty times as long as it should, or
        never ending, is failing. ``line`` is the first of the changed function, None for what is no function's.
        """
        names = [name for name in names if name in self.items]
        if not names:
            return None
        seconds = 60 + 20 * sum(tests.seconds[name] for name in names)
        module = self.modules[path]
        in_place = line is not None and (module, line) not in tests.imported
        with warnings.catch_warnings(action="ignore"):
            changed = _code_at(compile(after, path, "exec"), line) if in_place else None

        def run() -> int:
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
            # Bytecode of a fault must not outlive it; that of everything else lies there since `record`.
            sys.dont_write_bytecode = True
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            if changed is None or not _put(changed, path):
                os.execv(sys.executable, [sys.executable, "-m", "pytest", *_OPTIONS, *names])
            return self._run([self.items[name] for name in names])

        if _forked(self.copy, run) == 0:
            return None
        said = (self.copy.parent / "tests.txt").read_text("utf-8", "replace")
        found = _FAILED.findall(said)
        return str(found[-1]) if found else ""

    def _run(self, items: list[pytest.Item]) -> int:
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.session is None or self.session.testsfailed:
                return 1
        return 0

    def _trace(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call; nothing is followed line by line."""
        module = self.modules.get(frame.f_code.co_filename)
        if event == "call" and module is not None:
            self.now.add((module, frame.f_code.co_firstlineno))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Everything is imported: do the work instead."""
        sys.settrace(None)
        if session.testsfailed:
            return True
        self.session = session
        self.items = {item.nodeid: item for item in session.items}
        self.work(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Say what failed: pytest itself would when all is over."""
        if report.failed:
            print(f"\n{report.longreprtext}\nFAILED {report.nodeid}", flush=True)

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


def collected(copy: Path, files: list[str], modules: list[Path], work: Callable[[Collected], None]) -> bool:
    """Do ``work`` in a fork that has collected the tests in ``files`` of the copy; false if they cannot be."""
    rooms = copy / "build" / "rooms" / "iotrace"
    plugin = Collected(copy, {str(rooms / module): module.as_posix() for module in modules}, work)

    def run() -> int:
        plugin.now = plugin.imported
        sys.settrace(plugin._trace)  # noqa: SLF001 - its own
        pytest.main([*_OPTIONS, *files], plugins=[plugin])
        return int(plugin.session is None)

    return _forked(copy, run, wait_s=None) == 0


def _code_at(module: CodeType, line: int | None) -> CodeType | None:
    """The code of the function that begins at a line, at whatever depth; None if there is none."""
    inner = [one for one in module.co_consts if isinstance(one, CodeType)]
    found = [one for one in inner if one.co_firstlineno == line and not one.co_name.startswith("<")]
    deeper = (_code_at(one, line) for one in inner)
    return found[0] if found else next((one for one in deeper if one is not None), None)


def _put(code: CodeType, path: str) -> bool:
    """Let every function made of the code in this place of the file run ``code`` instead; false if there is none."""
    there = [
        one
        for one in gc.get_objects()
        if isinstance(one, FunctionType)
        and (one.__code__.co_filename, one.__code__.co_firstlineno, one.__code__.co_qualname)
        == (path, code.co_firstlineno, code.co_qualname)
        and len(one.__code__.co_freevars) == len(code.co_freevars)
    ]
    for one in there:
        one.__code__ = code
    return bool(there)


def _forked(copy: Path, run: Callable[[], int], wait_s: float | None = WAIT_S) -> int:
    """The status of ``run`` in a child whose rooms are those of the copy; its words go to a file beside that."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if wait_s is not None:
                os.setsid()
            words = os.open(copy.parent / "tests.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for number in (1, 2):
                os.dup2(words, number)
            os.chdir(copy)
            rooms = str(copy / "build" / "rooms")
            if rooms not in sys.path:
                sys.path[:0] = [rooms]
            os.environ["PYTHONPATH"] = rooms
            status = run()
        except BaseException:  # noqa: BLE001 - a fork that lives on would go on as its parent
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    if wait_s is None:
        return os.waitpid(child, 0)[1]
    done, ended = 0, time.monotonic() + wait_s
    try:
        while time.monotonic() < ended:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return status
            time.sleep(0.01)
    finally:
        if not done:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return 1
