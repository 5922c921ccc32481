"""Runs tests against small faults: all of them once without any, then for each fault those that call what it changes.

The tests are imported and collected once. `Collected.record` runs them in a fork and notes (by coverage.py) which lines
of the modules in question each test runs and how long it takes. `Collected.fails_in` forks again, puts the changed
function in the place of the one in memory, and runs only the tests that run the changed line, the quickest first, until
one fails. What is needed while modules are imported (constants, what decorators and tables call) is tried in a process
of its own.

What a fixture of a whole file or session runs counts for all tests of that file; a test that starts a program may run
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
import time
import traceback
import warnings
from bisect import bisect_right
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import pytest
from coverage import Coverage

WAIT_S: Final = 900
RECORD_S: Final = 4 * 3600
FAULT_S: Final = 30.0
"""Processor time of the tests that are run for one fault; what they do not notice counts as a fault that survived."""
_ANYTHING: Final = ("", 0)
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+\.py)", re.MULTILINE)
_OPTIONS: Final = (
    "-x", "-q", "-p", "no:cacheprovider", "--inline-snapshot=disable", "-m", "not slow", "--basetemp", "build/tests",
)  # fmt: skip


@dataclass(frozen=True)
class Tests:
    """What one group's tests run, as (module, line), and how long each takes, in seconds."""

    lines: Mapping[str, frozenset[tuple[str, int]]]
    seconds: Mapping[str, float]

    @classmethod
    def read(cls, path: Path) -> "Tests":
        """What `write` wrote; nothing where it did not."""
        if not path.exists():
            return cls({}, {})
        noted = json.loads(path.read_text("utf-8"))
        lines = {
            name: frozenset((module, line) for module, lines in one.items() for line in lines)
            for name, one in noted["lines"].items()
        }
        return cls(lines, noted["seconds"])

    def write(self, path: Path) -> None:
        """Keep it in a file."""
        lines: dict[str, dict[str, list[int]]] = {}
        for name, places in self.lines.items():
            of_test = lines.setdefault(name, {})
            for module, line in sorted(places):
                of_test.setdefault(module, []).append(line)
        path.write_text(json.dumps({"lines": lines, "seconds": dict(self.seconds)}), "utf-8")

    def without(self, files: Collection[str]) -> "Tests":
        """All but the tests in these files."""
        lines = {name: places for name, places in self.lines.items() if name.split("::")[0] not in files}
        return replace(self, lines=lines)

    def running(self, parts: Iterable[tuple[str, int, int]]) -> list[str]:
        """The tests that run a line of one of these (module, first and last line)."""
        asked = {(module, line) for module, first, last in parts for line in range(first, last + 1)}
        return [
            name for name, places in self.lines.items() if _ANYTHING in places or not asked.isdisjoint(places)
        ]

    def running_any(self) -> list[str]:
        """The tests that run anything in the group's modules."""
        return [name for name, places in self.lines.items() if places]

    def affordable(self, names: Iterable[str]) -> list[str]:
        """The quickest first, and no more of them than take `FAULT_S`, but one at least."""
        found = sorted(names, key=lambda name: self.seconds[name])
        taken = list(accumulate(self.seconds[name] for name in found))
        return found[: max(bisect_right(taken, FAULT_S), 1)]


@dataclass(eq=False)
class Collected:
    """A plugin of pytest that keeps the collected tests, and hands itself to ``work`` instead of running them."""

    copy: Path
    modules: Mapping[str, str]
    """By the name of the file that is imported."""
    work: Callable[["Collected"], None]
    now: str = ""
    """What is being run: a test, a file where a fixture of the whole file is, nothing during import."""
    coverage: Coverage | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    programs: set[str] = field(default_factory=set)
    """What starts programs."""
    imported: frozenset[tuple[str, int]] = frozenset()
    """The lines that run while modules are imported."""
    items: dict[str, pytest.Item] = field(default_factory=dict)
    session: pytest.Session | None = None

    def record(self, into: Path, files: Collection[str]) -> bool:
        """Run the tests of ``files`` that ``into`` does not know, and note there what they call; false if one fails."""
        known = Tests.read(into).lines
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
            self.programs.add(self.now)
            started(*args, **options)

        subprocess.Popen.__init__ = start  # type: ignore[method-assign]
        self.watch()
        status = self._run(items)
        if status == 0:
            lines = self.watched()
            for name in self.programs:
                lines.setdefault(name, set()).add(_ANYTHING)
            every = {
                name: frozenset().union(*(lines.get(one, ()) for one in (name, name.split("::")[0], "")))
                for name in self.seconds
            }
            Tests({**known.lines, **every}, {**known.seconds, **self.seconds}).write(into)
        return status

    def watch(self) -> None:
        """Note from now on which lines of the modules are run, under `now`."""
        self.coverage = Coverage(data_file=None, config_file=False, include=list(self.modules))
        self.coverage.set_option("run:core", "ctrace")  # another one cannot tell who ran a line
        self.coverage.start()

    def watched(self) -> dict[str, set[tuple[str, int]]]:
        """Stop noting; what was run since `watch`, by what ran it."""
        assert self.coverage is not None
        self.coverage.stop()
        # It warns where nothing was run, which tests may well do.
        with warnings.catch_warnings(action="ignore"):
            data = self.coverage.get_data()
        found: dict[str, set[tuple[str, int]]] = {}
        for path, module in self.modules.items():
            for line, names in data.contexts_by_lineno(os.path.realpath(path)).items():
                for name in names:
                    found.setdefault(name, set()).add((module, line))
        self.coverage = None
        return found

    def _switch(self, to: str) -> str:
        """Note under another name; the one before."""
        before, self.now = self.now, to
        if self.coverage is not None:
            self.coverage.switch_context(to)
        return before

    def fails_in(
        self, tests: Tests, names: list[str], path: str, after: str, function: tuple[int, int, int] | None
    ) -> str | None:
        """The file of the test that fails with ``after`` as the text of the file ``path``, in which it stands already.

        None where none fails; empty where it cannot be told which did. Taking ten times as long as it should, or never
        ending, is failing. ``function`` is the first line of the outermost that is changed, that of its first statement
        and its last; None for what is no function's.
        """
        names = [name for name in names if name in self.items]
        if not names:
            return None
        seconds = 10 + 10 * sum(tests.seconds[name] for name in names)
        changed = None
        if function is not None:
            first, body, last = function
            if self.imported.isdisjoint((self.modules[path], line) for line in range(body, last + 1)):
                with warnings.catch_warnings(action="ignore"):
                    changed = _code_at(compile(after, path, "exec"), first)

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

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Everything is imported: do the work instead."""
        self.imported = frozenset(self.watched().get("", ()))
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
        self._switch(item.nodeid)
        began = time.process_time()
        yield
        self.seconds[item.nodeid] = time.process_time() - began

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None]:
        """What lasts longer than one test."""
        before = self._switch(
            self.now if fixturedef.scope == "function" else request.node.nodeid.split("::")[0]
        )
        yield
        self._switch(before)


def collected(copy: Path, files: list[str], modules: list[Path], work: Callable[[Collected], None]) -> bool:
    """Do ``work`` in a fork that has collected the tests in ``files`` of the copy; false if they cannot be."""
    rooms = copy / "build" / "rooms" / "iotrace"
    plugin = Collected(copy, {str(rooms / module): module.as_posix() for module in modules}, work)

    def run() -> int:
        plugin.watch()
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
