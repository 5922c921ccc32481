"""A headless Chromium driven over its DevTools protocol, through a pipe: no port, no library, no network."""

import base64
import json
import os
import shutil
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from iotrace.analyze.report.chromium import launched

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page:
    """One tab. ``requests`` and ``complaints`` grow while it is used."""

    def __init__(self, answers: BinaryIO, commands: BinaryIO) -> None:
        self._answers, self._commands = answers, commands
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self._seen: set[str] = set()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility", "DOM"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events in between are noted."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, path: Path) -> None:
        """Load a file and wait for its load event."""
        self.visit(path.as_uri())

    def visit(self, address: str) -> None:
        """Load what is at an address and wait for its load event."""
        self._seen.clear()
        self.requests.clear()
        self.complaints.clear()
        self.call("Page.navigate", url=address)
        while "Page.loadEventFired" not in self._seen:
            self._next()

    def wait_for(self, expression: str, seconds: float = 60) -> None:
        """Wait until an expression of JavaScript holds."""
        until = time.monotonic() + seconds
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() < until, f"never: {expression}"
            time.sleep(0.05)

    def drag(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """Press the left button at one place, move to another, let go there."""
        self.mouse("mouseMoved", x0, y0)
        self.mouse("mousePressed", x0, y0, button="left", clickCount=1)
        for share in (0.3, 0.6, 1.0):
            self.mouse("mouseMoved", x0 + share * (x1 - x0), y0 + share * (y1 - y0), button="left", buttons=1)
        self.mouse("mouseReleased", x1, y1, button="left", clickCount=1)

    def click(self, x: float, y: float) -> None:
        """Press and release the left button."""
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """One event of the mouse."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def look(self, *, width: int = 1200, height: int = 900, dark: bool = False, media: str = "") -> None:
        """Set the window and what the page is shown on."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def screenshot(self, top: float = 0, height: float = 900, width: float = 1200, scale: float = 1) -> bytes:
        """A PNG of a part of the page."""
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": scale}
        answer = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(answer["data"])

    def pdf(self) -> bytes:
        """The page as it prints on A4."""
        answer = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=False)
        return base64.b64decode(answer["data"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._answers.fileno(), 1 << 20)
            assert piece, "the browser has gone"
            self._rest += piece
        line, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        method, parameters = message.get("method", ""), message.get("params", {})
        self._seen.add(method)
        if method == "Network.requestWillBeSent":
            # A picture that stands in its own address is asked of nobody.
            if not parameters["request"]["url"].startswith("data:"):
                self.requests.append(parameters["request"]["url"])
        elif method == "Log.entryAdded":
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(str(parameters["args"]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        return message


@contextmanager
def browser():
    """A `Page` of a browser of its own."""
    assert CHROMIUM
    with launched(CHROMIUM) as (answers, commands):
        yield Page(answers, commands)
