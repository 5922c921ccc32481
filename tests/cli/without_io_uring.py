"""Run a command where the kernel refuses io_uring, as a container's seccomp profile does.

Usage: without_io_uring.py [--user UID] COMMAND [ARGUMENT …]. Every io_uring system call fails with EPERM; with --user
the command also runs as that ordinary user. Works on x86-64 and arm64, where the three calls have the same numbers.
"""

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL_WITH_EPERM = 0x7FFF0000, 0x00050001
IO_URING_CALLS = (425, 426, 427)
"""io_uring_setup, io_uring_enter, io_uring_register."""


def forbid_io_uring() -> None:
    """Install the filter for this process and all it starts."""
    refuse = len(IO_URING_CALLS)
    program = [(LOAD_WORD, 0, 0, 0)]  # the system call's number is the first word of seccomp_data
    program += [(JUMP_IF_EQUAL, refuse - place, 0, call) for place, call in enumerate(IO_URING_CALLS)]
    program += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, FAIL_WITH_EPERM)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in program))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0)):
        if prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def main(arguments: list[str]) -> None:
    """Drop privileges if asked, install the filter, become the command."""
    if arguments[0] == "--user":
        user = int(arguments[1])
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        arguments = arguments[2:]
    forbid_io_uring()
    os.execvp(arguments[0], arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
