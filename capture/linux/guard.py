"""A helper process that outlives the recorder, should that be killed, for just as long as it takes to stop tracing."""

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

# Waits for the end of its input, which comes when the recorder closes it or is gone, however it went.
_SCRIPT: Final = """
read -r _
[ -d "$1" ] || exit 0
echo 0 > "$1/tracing_on"
echo 0 > "$1/events/enable"
for _ in 1 2 3 4 5 6 7 8 9 10; do
  rmdir "$1" && exit 0
  sleep 0.2
done
"""


class Guard:
    """Removes the tracing instance ``folder`` when this process ends without having done so itself."""

    def __init__(self, folder: Path) -> None:
        """Start the helper, in a session of its own: what is sent to the recorder's terminal does not reach it.

        Without a shell there is no guard, and what a killed recorder leaves is for the next run to remove.
        """
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "iotrace-guard", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )

    def dismiss(self) -> None:
        """Let the helper go, after the instance was removed."""
        if self._process is not None:
            self._process.communicate()
            self._process = None
