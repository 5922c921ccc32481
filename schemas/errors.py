"""The one error a user is meant to read, and what stands behind it where a file is damaged."""

from typing import Final

import pyarrow as pa

UNREADABLE: Final = (pa.ArrowException, OSError, ValueError)
"""What pyarrow raises for bytes that are no table; for a name in them that is no text, no error of its own."""

NEEDS_MEMORY: Final = "close other programs, or raise the limit: ulimit -a shows the shell's"
"""The hint where neither the system nor the limits of the shell, service or container give what is needed."""


class IotraceError(Exception):
    """Wrong use or bad input: exit status 2, one line, and a hint.

    ``message`` names the user's own word (the path, the option, the device) and what is wrong with it, without a
    full stop; ``hint`` says what to do next. Everything else that is raised is a defect of iotrace.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
