"""The published Windows program under Wine, with a stand-in for Windows' event tracing put in its way.

The runtime's own start-up hook loads `stand-ins/startup-hook`, which turns the imports from advapi32 to
`stand-ins/trace`. The program is the one that users get.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[3]
AGENT = ROOT / "capture" / "agent"
STAND_INS = AGENT / "tests" / "stand-ins"
BUILT = ROOT / "build" / "agent"
EXE = BUILT / "win-x64" / "iotrace-agent.exe"
LIBRARY = BUILT / "stand-ins" / "trace.dll"
HOOK = BUILT / "startup-hook" / "startup-hook.dll"
SQL_SERVER = BUILT / "sql-server" / "sql-server.dll"
PREFIX = BUILT / "wine"

CONTROL = r"HKLM\System\CurrentControlSet\Control"
ENVIRONMENT = CONTROL + r"\Session Manager\Environment"
PUBLISHERS = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\WINEVT\Publishers"

SQL_LOGIN = {"IOTRACE_SQL_USER": "dba", "IOTRACE_SQL_PASSWORD": "stand-in"}
"""Any login does for the stand-in; no Windows login works off Windows."""

NO_DOTNET = 3
"""Exit status of ``with-dotnet.sh`` without an SDK."""

# Wine says so on every start, and it does not matter: all is 64-bit.
_NOISE = ("wine32 is missing", "multiarch needs to be", "dpkg --add-architecture", 'wine32:i386"')


class NotHereError(Exception):
    """What the tests need and this machine lacks, as a skip's reason."""


def prepare() -> None:
    """Build what is missing or older than its sources. Raises `NotHereError`."""
    for program in ("wine", "x86_64-w64-mingw32-gcc"):
        if shutil.which(program) is None:
            raise NotHereError(f"no {program}, which the tests of the Windows agent need")
    sources = [path for path in (AGENT / "src").rglob("*") if path.suffix in {".cs", ".csproj"}]
    if not _is_newer(EXE, [*sources, *AGENT.glob("Directory.*")]):
        _dotnet("sh", str(AGENT / "build.sh"))
    _build(STAND_INS / "startup-hook", HOOK)
    if not _is_newer(LIBRARY, list((STAND_INS / "trace").iterdir())):
        _run([str(STAND_INS / "trace" / "build.sh"), str(LIBRARY)])
    make_prefix(PREFIX)


def make_prefix(prefix: Path) -> None:
    """Wine's own folder, once."""
    if not (prefix / "ready").exists():
        shutil.rmtree(prefix, ignore_errors=True)
        prefix.mkdir(parents=True)
        # Without an installer of Mono, which would ask for a window.
        without_mono = {"WINEDLLOVERRIDES": "mscoree=;mshtml=;winemenubuilder.exe="}
        _run(["wineboot", "-i"], _wine(prefix) | without_mono)
        registry(prefix, r"HKCU\Software\Wine", Version="win10")
        # Wine has no port driver that tells of its requests; the stand-in plays them.
        registry(prefix, PUBLISHERS + r"\{c4636a1e-7986-4646-bf10-7bc3b4a76e8e}")
        (prefix / "ready").touch()


def registry(prefix: Path, key: str, **values: str) -> None:
    """Make a key of the registry, with these values."""
    for extra in [["/v", name, "/d", value] for name, value in values.items()] or [[]]:
        _run(["wine", "reg", "add", key, *extra, "/f"], _wine(prefix))


@contextmanager
def services_of(machine: "Host") -> Iterator[None]:
    """Wine's own service manager, whose services are on ``machine``: they have their environment from the registry."""
    make_prefix(machine.prefix)
    registry(machine.prefix, ENVIRONMENT, **machine.environment)
    # Milliseconds that a service may take to answer: a machine that is busy takes more than Wine's ten seconds.
    registry(machine.prefix, CONTROL, ServicesPipeTimeout="120000")
    # It reads the environment when it starts, and ends with the last program that is no service.
    _end(machine.prefix)
    someone = subprocess.Popen(
        ["wine", "cmd"], env=os.environ | _wine(machine.prefix), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        _end(machine.prefix)
        someone.communicate(timeout=60)


def _end(prefix: Path) -> None:
    """End all that runs in it; there may be nothing."""
    subprocess.run(["wineserver", "-k"], env=os.environ | _wine(prefix), timeout=60, check=False)
    _run(["wineserver", "-w"], _wine(prefix))


def sql_server(scenario: Path) -> "SqlServer":
    """A stand-in for a SQL Server, started; its `Program.cs` has the keys of ``scenario``. Raises `NotHereError`."""
    _build(STAND_INS / "sql-server", SQL_SERVER)
    process = subprocess.Popen(
        ["sh", AGENT / "with-dotnet.sh", "dotnet", SQL_SERVER, scenario],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    return SqlServer(process, int(process.stdout.readline()))


@dataclass
class SqlServer:
    """A stand-in that listens on the loopback interface."""

    process: subprocess.Popen[str]
    port: int

    @property
    def name(self) -> str:
        """As ``--server`` takes it."""
        return f"127.0.0.1,{self.port}"

    def finish(self) -> dict[str, list[str]]:
        """End it: what it received, what of that was no T-SQL, and the sessions that are left on it."""
        told, _ = self.process.communicate(timeout=60)
        answer: dict[str, list[str]] = json.loads(told)
        return answer

    def kill(self) -> None:
        """End it whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate(timeout=30)


def microsoft_parsers() -> Path:
    """The program that holds Microsoft's own parsers, up to date. Raises `NotHereError`."""
    program = BUILT / "microsoft-parsers" / "microsoft-parsers.dll"
    _build(AGENT / "tests" / "microsoft-parsers", program)
    return program


def windows_path(path: Path) -> str:
    """A path of this machine as a program under Wine names it."""
    return "Z:" + str(path.absolute()).replace("/", "\\")


class RawCounter(NamedTuple):
    """A line of ``raw-counters``, as the head of ``counters.c`` has it."""

    sample: int
    status: str
    type: int
    hertz: int
    first: int
    second: int
    multi_count: int
    path: str
    instance: str = ""


@dataclass
class Finished:
    """How a run of the agent ended and what it said."""

    status: int
    out: str
    error: str


@dataclass
class Host:
    """A Windows host that behaves as ``scenario`` says and on which ``events`` happen."""

    folder: Path
    events: bytes = b""
    scenario: dict[str, int | str] = field(default_factory=dict)
    program: Path = EXE
    prefix: Path = PREFIX

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "events").write_bytes(self.events)
        self.behave(**self.scenario)

    def behave(self, **scenario: int | str) -> None:
        """From the next start of the agent on; keys as in ``trace.c``."""
        (self.folder / "scenario").write_text("".join(f"{key}={value}\n" for key, value in scenario.items()))

    def counts(self, values: Iterable["RawCounter"]) -> None:
        """From the next start of the agent on, have performance counters with these raw values, in order of samples."""
        lines = ("\t".join(map(str, (*value[:2], f"{value.type:x}", *value[3:]))) for value in values)
        (self.folder / "raw-counters").write_text("".join(line + "\n" for line in lines))

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Every call of a trace function so far, and what was played."""
        return self.json_lines("calls")

    @property
    def sessions(self) -> set[str]:
        """Trace sessions that run now."""
        return {path.name.removeprefix("session-") for path in self.folder.glob("session-*")}

    @property
    def environment(self) -> dict[str, str]:
        """What makes a program run on this host."""
        return {
            "IOTRACE_STAND_IN": windows_path(self.folder),
            "IOTRACE_STAND_IN_LIBRARY": windows_path(LIBRARY),
            "DOTNET_STARTUP_HOOKS": windows_path(HOOK),
        }

    def start(self, *arguments: str) -> "Agent":
        """Start the agent."""
        environment = os.environ | _wine(self.prefix) | SQL_LOGIN | self.environment
        # Into files: what Wine starts beside the program holds a pipe open.
        with (self.folder / "out").open("wb") as out, (self.folder / "error").open("wb") as error:
            process = subprocess.Popen(
                ["wine", str(self.program), *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=error,
            )
        return Agent(process, self)

    def run(self, *arguments: str) -> Finished:
        """Run the agent to its end.

        A program that Wine starts while its server ends, for want of others, is refused before it begins: once more.
        """
        finished = self.start(*arguments).finish()
        if finished.error.startswith("wine client error"):
            finished = self.start(*arguments).finish()
        return finished

    def text(self, name: str) -> str:
        """What the agent said last to ``out`` or ``error``."""
        lines = (self.folder / name).read_text("utf-8", "replace").splitlines(keepends=True)
        return "".join(line for line in lines if not any(word in line for word in _NOISE))

    def json_lines(self, name: str) -> list[dict[str, Any]]:
        """Every object that is a line of ``name``; of a line that is being written, nothing yet."""
        path = self.folder / name
        lines = path.read_text("utf-8", "replace").splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]


@dataclass
class Agent:
    """An agent that runs."""

    process: subprocess.Popen[bytes]
    host: Host

    def finish(self, seconds: float = 180) -> Finished:
        """Wait for the end."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"no end within {seconds} s: {self._told()}") from None
        return Finished(status, self.host.text("out"), self.host.text("error"))

    def kill(self) -> None:
        """SIGKILL: no handler of the agent's own runs."""
        self.process.kill()
        self.process.wait(30)

    def wait_for(self, call: str, seconds: float = 120) -> dict[str, Any]:
        """The first line of ``calls`` named so, once it is there."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.process.poll() is None:
            for line in self.host.calls:
                if line["call"] == call:
                    return line
            time.sleep(0.1)
        if self.process.poll() is None:
            self.kill()
        raise AssertionError(f"no {call!r}: {self._told()}")

    def wait_until(self, is_so: Callable[[], bool], seconds: float = 120) -> None:
        """Wait until something holds; `AssertionError` if the agent ends before."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.process.poll() is None:
            if is_so():
                return
            time.sleep(0.2)
        if is_so():
            return
        if self.process.poll() is None:
            self.kill()
        raise AssertionError(f"not so within {seconds} s: {self._told()}")

    def freeze(self, seconds: float) -> None:
        """Let the agent stand still while the stand-in's clock goes on."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def _told(self) -> str:
        return f"{self.host.text('out')} {self.host.text('error')} {self.host.calls}"


def _wine(prefix: Path = PREFIX) -> dict[str, str]:
    return {
        "WINEPREFIX": str(prefix),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "mshtml=;winemenubuilder.exe=",
    }


def _is_newer(target: Path, sources: list[Path]) -> bool:
    return target.exists() and all(target.stat().st_mtime >= source.stat().st_mtime for source in sources)


def _build(project: Path, target: Path) -> None:
    if not _is_newer(target, list(project.glob("*.cs*"))):
        _dotnet(
            "dotnet", "build", str(project), "-c", "Release", "-m:1", "-nr:false", "-v", "quiet",
            "-o", str(target.parent),
        )  # fmt: skip


def _dotnet(*command: str) -> None:
    _run(["sh", str(AGENT / "with-dotnet.sh"), *command])


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, env=os.environ | _wine() | (environment or {}), capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL, timeout=900,
    )  # fmt: skip
    if done.returncode == NO_DOTNET and command[1:2] == [str(AGENT / "with-dotnet.sh")]:
        raise NotHereError("no .NET 10 SDK on PATH or beside the checkout")
    if done.returncode:
        raise AssertionError(
            f"{command} failed ({done.returncode}): {done.stdout[-3000:]} {done.stderr[-3000:]}"
        )
