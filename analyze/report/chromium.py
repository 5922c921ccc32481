"""Has a Chromium that is installed print a page, over its DevTools protocol through a pipe: no port, no network."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from iotrace.schemas import IotraceError

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "microsoft-edge")
_FLAGS: Final = (
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--remote-debugging-pipe",
)
# The browser reads its commands from descriptor 3 and answers on 4.
_LAUNCHER: Final = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_SECONDS_MAX: Final = 120.0
_READY: Final = "Boolean(document.documentElement.dataset.ready)"


def installed() -> str:
    """The browser's program. Raises `IotraceError` where there is none."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None or sys.platform == "win32":
        raise IotraceError(
            "a PDF is printed by Chromium, which is not installed here",
            hint="install chromium, or write report.html and print it from any browser",
        )
    return found


def print_pdf(page: Path) -> bytes:
    """The page as it prints on A4. Raises `IotraceError` if there is no browser, or it does not finish."""
    with _tab(installed()) as tab:
        _open(tab, page)
        printed = tab.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=True)
        return base64.b64decode(printed["data"])


def picture(page: Path, selector: str) -> bytes:
    """What ``selector`` finds on a page, as a PNG. Raises `IotraceError` as `print_pdf` does."""
    script = (
        "(async () => { document.querySelectorAll('details.rest').forEach(one => { one.open = true; });"
        f" const one = document.querySelector({json.dumps(selector)}); one.scrollIntoView();"
        " while (!one.querySelector('.main-svg')) await new Promise(done => setTimeout(done, 50));"
        " document.querySelectorAll('.modebar, .zoom, figure details').forEach(each => each.remove());"
        " const b = one.getBoundingClientRect(); return [b.x + scrollX, b.y + scrollY, b.width, b.height]; })()"
    )
    with _tab(installed()) as tab:
        _open(tab, page)
        found = tab.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        x, y, width, height = found["result"]["value"]
        clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        return base64.b64decode(
            tab.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        )


def _open(tab: "_Tab", page: Path) -> None:
    """Open a page and wait until it can draw."""
    tab.call("Page.enable")
    tab.call("Emulation.setDeviceMetricsOverride", width=940, height=900, deviceScaleFactor=1, mobile=False)
    tab.call("Page.navigate", url=page.resolve().as_uri())
    until = time.monotonic() + _SECONDS_MAX
    while not tab.call("Runtime.evaluate", expression=_READY, returnByValue=True)["result"].get("value"):
        if time.monotonic() > until:
            raise _failed(f"it was not ready within {_SECONDS_MAX:g} s")
        time.sleep(0.1)


def _failed(why: str) -> IotraceError:
    return IotraceError(
        f"Chromium did not draw the page: {why}", hint="write report.html and print it from any browser"
    )


class _Tab:
    def __init__(self, answers: BinaryIO, commands: BinaryIO) -> None:
        self._answers, self._commands = answers, commands
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        try:
            self._commands.write(json.dumps(message).encode() + b"\0")
            self._commands.flush()
        except OSError as problem:
            raise _failed("it ended by itself") from problem
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise _failed(str(answer["error"].get("message", "no reason given")))
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._answers.fileno(), 1 << 20)
            if not piece:
                raise _failed("it ended by itself")
            self._rest += piece
        line, self._rest = self._rest.split(b"\0", 1)
        found: dict[str, Any] = json.loads(line)
        return found


@contextmanager
def launched(program: str) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """A headless browser of its own: its answers, and where its commands go. It is gone afterwards with its profile."""
    # Chromium keeps a sandbox of its own, but refuses to for root.
    flags = [*_FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    to_browser, from_browser = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCHER, str(to_browser[0]), str(from_browser[1]),
             program, *flags, f"--user-data-dir={profile}"],
            pass_fds=(to_browser[0], from_browser[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        os.close(to_browser[0])
        os.close(from_browser[1])
        with (
            os.fdopen(from_browser[0], "rb", buffering=0) as answers,
            os.fdopen(to_browser[1], "wb") as commands,
        ):
            try:
                yield answers, commands
            finally:
                process.terminate()
                process.wait(30)


@contextmanager
def _tab(program: str) -> Iterator[_Tab]:
    with launched(program) as (answers, commands):
        yield _Tab(answers, commands)
