"""Loading the program itself: stopped, short of memory, or broken, it says so in words and shows no traceback."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BUNDLED = Path(__file__).parents[2] / "cli" / "bundled" / "pgbench.iotrace"
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


@pytest.mark.skipif(sys.platform == "win32", reason="how a POSIX shell closes streams")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_streams_that_the_shell_closed_change_nothing_else(tmp_path, closed):
    """Help is done, and a recording that is not there is an error, whether or not that can be said."""
    command = [sys.executable, "-m", "iotrace.cli", "describe", "nowhere.iotrace"]
    for end, status in ((["--help"], 0), ([], 2)):
        done = subprocess.run(
            ["bash", "-c", f'exec "$@" {closed}', "bash", *command, *end],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["at the end", "at once"])
@pytest.mark.parametrize("arguments", [["describe", "nowhere.iotrace"], ["describe"], ["bogus"]])
def test_an_error_that_cannot_be_written_is_still_one(arguments, unbuffered):
    """A full disk behind stderr: a status of 1 would say that the answer is no."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "iotrace.cli", *arguments],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stderr=full,
            check=False,
        )
    assert done.returncode == 2


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX's pipes")
def test_an_error_that_nobody_reads_is_still_one():
    """As in ``2>&1 | head``: rich would end with status 1."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        command = [sys.executable, "-m", "iotrace.cli", "describe", "nowhere.iotrace"]
        assert subprocess.run(command, stderr=gone, check=False).returncode == 2


@pytest.mark.skipif(sys.platform == "win32", reason="how a POSIX shell closes streams")
def test_a_result_is_whole_where_the_shell_closed_stdout(tmp_path):
    """The first file that is opened must not take its place."""
    for name, closed in (("open.csv", ">/dev/null"), ("closed.csv", ">&- 2>&-")):
        command = [sys.executable, "-m", "iotrace.cli", "export", str(BUNDLED), "--to", "csv", "-o", name]
        done = subprocess.run(
            ["bash", "-c", f'exec "$@" {closed}', "bash", *command], cwd=tmp_path, check=False
        )
        assert done.returncode == 0
    assert (tmp_path / "closed.csv").read_bytes() == (tmp_path / "open.csv").read_bytes()


def test_a_terminal_of_no_width_is_written_to_all_the_same():
    done = subprocess.run(
        [sys.executable, "-m", "iotrace.cli", "describe", "nowhere.iotrace"],
        env=os.environ | {"COLUMNS": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.startswith("error: no recording at 'nowhere.iotrace'")


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes are Linux's")
@pytest.mark.parametrize("command", ["describe", "validate", "replay"])
def test_names_that_are_no_text_are_refused_before_anything_is_done(tmp_path, command):
    """An intact recording of such a name was called damaged; a replay filled its file first."""
    name = os.fsencode(tmp_path) + b"/bad\xff"
    more = {"replay": [b"--allow-writes", b"--target", name]}.get(command, [name])
    done = subprocess.run(
        [sys.executable, "-m", "iotrace.cli", command, *more], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.split("\n")[0]) == (
        2,
        "error: a name on the command line is not text (UTF-8)",
    )
    assert not list(tmp_path.iterdir())
