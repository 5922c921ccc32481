"""The shell's completion knows commands and options."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("iotrace descr", {"describe"}),
        ("iotrace capture pl", {"plan"}),
        ("iotrace replay --sca", {"--scale"}),
        ("iotrace export --t", {"--to", "--target"}),
    ],
)
def test_bash_completes(typed: str, expected: set[str]) -> None:
    words = {
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
        "_IOTRACE_COMPLETE": "complete_bash",
    }
    done = subprocess.run(
        [sys.executable, "-m", "iotrace.cli"],
        env=os.environ | words,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) >= expected


def test_the_script_to_install_is_shown() -> None:
    words = {"_IOTRACE_COMPLETE": "source_bash"}
    done = subprocess.run(
        [sys.executable, "-m", "iotrace.cli"],
        env=os.environ | words,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "complete" in done.stdout
    assert "iotrace" in done.stdout
