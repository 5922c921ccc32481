"""Loading the program itself: stopped, short of memory, or broken, it says so in words and shows no traceback."""

import signal
import subprocess
import sys
import time

import pytest

RUN = [sys.executable, "-m", "iotrace.cli", "--version"]
SLOW_TO_LOAD = "import sys, time; print('loading', flush=True); time.sleep(30)"


def run_with(folder, module, *, shell=""):
    """The program with a module of its own called typer, which it loads first."""
    (folder / "typer.py").write_text(module)
    command = ["bash", "-c", f'{shell} exec "$@"', "bash", *RUN]
    return subprocess.Popen(
        command, env={"PYTHONPATH": str(folder)}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to one process")
@pytest.mark.parametrize("swallowed", [False, True], ids=["plain", "by a module that swallows it"])
def test_a_user_may_stop_it_while_it_loads(tmp_path, swallowed):
    module = f"try:\n    {SLOW_TO_LOAD}\nexcept BaseException:\n    pass" if swallowed else SLOW_TO_LOAD
    process = run_with(tmp_path, module)
    assert process.stdout.readline() == "loading\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, "stopped; nothing was begun\n")


@pytest.mark.parametrize(
    "raised", ["ImportError('libarrow.so: cannot open')", "OSError('libarrow.so: cannot open')"]
)
def test_what_does_not_load_says_what_and_what_to_do(tmp_path, raised):
    process = run_with(tmp_path, f"raise {raised}")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err.startswith(
        "error: iotrace cannot be loaded: libarrow.so: cannot open\n\nhint: install it again"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of memory as Linux has it")
def test_a_limit_of_memory_is_what_is_named(tmp_path):
    """OpenBLAS and the loader fail by other names for want of memory."""
    process = run_with(
        tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGINT)", shell="ulimit -v 2000000;"
    )
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err.startswith("error: there is not enough memory to load iotrace\n\nhint: close other programs")
