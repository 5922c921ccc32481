"""Commands killed at their worst moments while they write or replace: nothing is lost, nothing piles up."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iotrace.cli.main import run
from iotrace.schemas import Recording, Sweep
from iotrace.schemas.partials import MARK, Claim, is_claimed_elsewhere, remove_given_names

from .evidence import evidence
from .test_overwrite import own_folder, write_characterization, write_recording, write_sweep

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="marks and locks as Linux has them")

TRACE = "128166372003061629,usr,0,Read,0,4096,100\n"
DYING = """
import os, signal, sys
from pathlib import Path
from iotrace.schemas import durable, partials, replacing, writer

def dies(module, name, after, count=1, of=""):
    real, calls = getattr(module, name), []
    def dying(*words, **named):
        calls.extend([1] if of in str(words[0]) + "," else [])
        last = len(calls) == count
        if last and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = real(*words, **named)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    setattr(module, name, dying)

def cannot_exchange():
    replacing.exchange = lambda *_: False

{moment}
from iotrace.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
MOMENTS = {
    "before the new is whole": "[dies(Path, name, True) for name in ('write_text', 'write_bytes')]",
    "before the exchange": "dies(replacing, 'exchange', False)",
    "after the exchange": "dies(replacing, 'exchange', True)",
    "before the earlier is removed": "dies(replacing, 'remove_written', False)",
    "while the earlier is removed": "dies(Path, 'unlink', True)",
    "between two renames": "cannot_exchange(); dies(Path, 'rename', True, of='/result,')",
    "after two renames": "cannot_exchange(); dies(replacing, 'remove_written', False)",
}
COMMANDS = {
    "import": ("import", "TRACE", "-o", "OUT"),
    "fio": ("export", "SOURCE", "--to", "fio", "-o", "OUT"),
    "plan": ("capture", "plan", "--output", "OUT"),
    "csv": ("export", "SOURCE", "--to", "csv", "-o", "OUT"),
    "report": ("report", "SOURCE", "-o", "OUT"),
}
QUICK_FIRST = [
    pytest.param(name, marks=[pytest.mark.slow] * (name not in {"import", "csv"})) for name in COMMANDS
]


@pytest.fixture
def place(tmp_path):
    (tmp_path / "trace.csv").write_text(TRACE * 3)
    write_recording(tmp_path / "source.iotrace")
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


def words(place, command, out):
    names = {"TRACE": place.parent / "trace.csv", "SOURCE": place.parent / "source.iotrace", "OUT": out}
    return [str(names.get(word, word)) for word in (*COMMANDS[command], "--overwrite")]


def killed(sentence, moment):
    """Whether the command was killed at that moment; it has none of the kind otherwise, and ended well."""
    script = DYING.format(moment=moment)
    done = subprocess.run(
        [sys.executable, "-c", script, *sentence], check=False, capture_output=True, text=True
    )
    assert done.returncode in {-signal.SIGKILL, 0, 1}, done.stderr
    return done.returncode == -signal.SIGKILL


def make_earlier(out, place, command):
    """A result of the same kind, of other content, so that the two can be told apart."""
    source = place.parent / "source.iotrace"
    if command in {"csv", "report"}:
        end = ["--to", "csv", "--layer", "block"] if command == "csv" else ["--title", "earlier"]
        assert run(["export" if command == "csv" else "report", str(source), *end, "-o", str(out)]) in (0, 1)
    else:
        own_folder(out, source, command)


def contents(path):
    if path.is_file():
        return path.read_bytes()
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("command", QUICK_FIRST)
def test_whoever_is_killed_while_replacing_leaves_one_of_the_two_whole(place, command, moment):
    out = place / "result"
    make_earlier(out, place, command)
    earlier = contents(out)
    if not killed(words(place, command, out), MOMENTS[moment]):
        assert command in {"csv", "report"}, "nothing was tried"
        return
    if moment == "between two renames" and command not in {"csv", "report"}:
        assert not out.exists()  # what cannot be exchanged has no name for a moment
        # Any command that is to write there puts it back, and then refuses to replace it.
        assert run(words(place, command, out)[:-1]) == 2
    found = contents(out)
    if found != earlier:  # then it is the new, and nothing of it is missing
        assert set(found) == set(earlier) if isinstance(found, dict) else found
        if command == "import":
            assert Recording.open(out).read("io").num_rows == 3
    assert run(words(place, command, out)) in (0, 1)
    assert [entry.name for entry in place.iterdir()] == ["result"]
    with pytest.raises(OSError, match="No data"):
        os.getxattr(out, MARK)


@pytest.mark.parametrize("command", QUICK_FIRST)
def test_what_a_killed_command_had_begun_goes_with_the_next(place, command):
    out = place / "result"
    moment = {
        "csv": "import iotrace.replay.export.tables as tables; dies(tables, '_run', True)",
        "report": "dies(replacing, '_sum_of', False)",
    }.get(command, "dies(durable, 'sync_file', False); dies(durable, '_sync', False, 9)")
    assert killed(words(place, command, out), moment)
    (left,) = place.iterdir()
    assert left.name.startswith(".result.partial-")
    assert run(words(place, command, out)) in (0, 1)
    assert [entry.name for entry in place.iterdir()] == ["result"]


def test_a_live_writers_folder_is_left_alone(place):
    out = place / "result"
    (place / ".result.partial-01234567").mkdir()
    claim = Claim(place / ".result.partial-01234567")
    try:
        assert run(words(place, "import", out)) == 0
    finally:
        claim.release()
    assert (place / ".result.partial-01234567").is_dir()
    assert run(words(place, "import", out)) == 0
    assert not (place / ".result.partial-01234567").exists()


def lay_folder(path):
    path.mkdir()
    (path / "thesis.txt").write_text("ten years of work")


def lay_recording(path):
    write_recording(path, 20)


def lay_marked_link(path):
    lay_folder(path.with_name("precious"))
    os.setxattr(path.with_name("precious"), MARK, b"")
    path.symlink_to("precious")


def lay_of_another_user(path):
    lay_folder(path)
    os.setxattr(path, MARK, b"")
    os.chown(path, 12345, 12345)


LOOK_ALIKES = {
    "folder": lay_folder,
    "recording": lay_recording,
    "file": lambda path: path.write_text("ten years of work"),
    "fifo": os.mkfifo,
    "link to a marked folder": lay_marked_link,
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "another user's": pytest.param(lay_of_another_user, marks=pytest.mark.root),
}


@pytest.mark.parametrize("lay", LOOK_ALIKES.values(), ids=LOOK_ALIKES)
@pytest.mark.parametrize("name", [".result.partial-01234567", ".result.old-89abcdef", "result.unfinished"])
@pytest.mark.parametrize("command", ["import", "fio", "csv"])
def test_what_only_has_such_a_name_is_left_alone(place, lay, name, command):
    if lay is lay_of_another_user and os.geteuid():
        pytest.skip("giving files away needs root")
    lay(place / name)
    before = evidence(place)
    assert run(words(place, command, place / "result")) == 0
    shutil.rmtree(place / "result") if command != "csv" else (place / "result").unlink()
    assert evidence(place) == before


@pytest.mark.parametrize("moment", ["before its first step", "after its first step"])
def test_a_sweep_killed_over_an_earlier_one(place, moment):
    """The earlier is back."""
    out = place / "result"
    write_sweep(out)
    earlier = contents(out)
    script = f"""
import os, signal, sys
sys.path[:0] = {[str(Path(__file__).parents[2])]!r}
from pathlib import Path
from iotrace.schemas import SweepWriter
from tests.attacks.test_overwrite import write_recording
writer = SweepWriter({str(out)!r}, title="new", source_uuid=None, overwrite=True)
if {moment == "after its first step"}:
    writer.add(2, write_recording(writer.step_path(2), 60))
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -signal.SIGKILL
    assert len(list(place.iterdir())) == 2
    assert run(words(place, "import", out)[:-1]) == 2
    assert [entry.name for entry in place.iterdir()] == ["result"]
    assert contents(out) == earlier


@pytest.mark.parametrize(
    "name",
    ["mine/payroll.parquet", "payroll.parquet", "io.parquet", "dump.sql", "deploy.ps1", "README.md", "mine/thesis.docx",
     "steps/mine.txt", "steps/io.parquet", "steps/prod.iotrace/io.parquet"],
)  # fmt: skip
def test_what_somebody_put_into_a_sweep_that_was_killed_over_an_earlier_one_stays(place, name):
    """It has its name already, so people put things into it; they are found beside the earlier one, in sight."""
    out = place / "result"
    write_sweep(out)
    earlier = contents(out)
    with watching(out, KILLED):
        pass
    mine = out / name
    mine.parent.mkdir(exist_ok=True, parents=True)
    mine.write_text("ten years of work")
    assert run(words(place, "import", out)[:-1]) == 2
    assert contents(out) == earlier
    [kept] = [entry for entry in place.iterdir() if entry.name != "result"]
    assert kept.name.startswith("result.left-")
    assert (kept / name).read_text() == "ten years of work"
    assert [path for path in kept.rglob("*") if path.is_file()] == [kept / name]


LIVING = """
import sys
from pathlib import Path
sys.path[:0] = [{root!r}]
from iotrace.schemas import SweepWriter
from tests.attacks.test_overwrite import write_recording
with SweepWriter(sys.argv[1], title="new", source_uuid=None, overwrite=True) as writer:
    for scale in (1, 2):
        writer.add(scale, write_recording(writer.step_path(scale), 60))
        print("step", flush=True)
        input()
"""


@pytest.mark.parametrize("over", ["nothing", "an earlier one"])
def test_a_sweep_that_lives_is_not_replaced(place, over):
    out = place / "result"
    if over == "an earlier one":
        write_sweep(out)
    script = LIVING.format(root=str(Path(__file__).parents[2]))
    command = [sys.executable, "-c", script, str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout.readline() == "step\n"
        before = contents(out)
        assert run(words(place, "import", out)) == 2
        assert contents(out) == before
        running.stdin.write("\n\n")
        running.stdin.flush()
        assert running.wait() == 0
    assert len(Sweep.open(out).steps) == 2
    assert run(words(place, "import", out)) == 0
    assert [entry.name for entry in place.iterdir()] == ["result"]


SHORT = {
    "sweep": ("sweep", "SOURCE", "--step-seconds", "0.5", "--scales"),
    "characterize": ("characterize", "--file-size", "1M", "--seconds", "0.5", "--warm-up", "0", "--size", "8K",
                     "--outstanding"),
}  # fmt: skip


def killed_in_its_second_step(sentence, out):
    """Whether it was; a step that is played has a hidden folder."""
    command = [sys.executable, "-m", "iotrace.cli", *sentence]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        while running.poll() is None and not list(out.glob("**/.001-*.partial-*")):
            time.sleep(0.01)
        running.kill()
    return running.returncode == -signal.SIGKILL


@pytest.mark.parametrize("command", SHORT)
@pytest.mark.parametrize("over", ["an earlier one", pytest.param("nothing", marks=pytest.mark.slow)])
def test_one_killed_in_a_step_loses_no_earlier_result_and_hinders_no_later(place, command, over):
    out = place / "result.iotrace"
    words = [str(place.parent / "source.iotrace") if word == "SOURCE" else word for word in SHORT[command]]
    options = ["--target", str(place.parent / "t.bin"), "--buffered", "-o", str(out)]
    one_step, two_steps = [*words, "1", *options], [*words, "1,2", *options]
    if over == "an earlier one":
        (write_sweep if command == "sweep" else write_characterization)(out)
        earlier = contents(out)
        assert killed_in_its_second_step([*two_steps, "--overwrite"], out)
        assert contents(out) != earlier
        assert run(one_step) == 2  # puts the earlier back, and does not replace it unasked
        assert contents(out) == earlier
        assert [entry.name for entry in place.iterdir()] == ["result.iotrace"]
    else:
        assert killed_in_its_second_step(two_steps, out)
    assert run([*one_step, "--overwrite"]) in (0, 1)
    assert [entry.name for entry in place.iterdir()] == ["result.iotrace"]
    assert not list(out.glob("**/.*"))
    with pytest.raises(OSError, match="No data"):
        os.getxattr(out, MARK)


WATCHED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = [{root!r}]
from iotrace.schemas import GrowingRecording, SweepWriter
from iotrace.schemas.sweep import watched_path
from tests.attacks.test_damaged_recordings import DEVICES, ROWS, manifest
writer = SweepWriter(sys.argv[1], title="new", source_uuid=None, overwrite=True)
growing = GrowingRecording.create(watched_path(writer.step_path(1)))
growing.replace("devices", DEVICES)
growing.append("io", ROWS)
growing.flush(manifest())
print("recording", flush=True)
{ending}
"""
KILLED = "os.kill(os.getpid(), signal.SIGKILL)"


def watching(out, ending):
    script = WATCHED.format(root=str(Path(__file__).parents[2]), ending=ending)
    words = [sys.executable, "-c", script, str(out)]
    running = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert running.stdout.readline() == "recording\n"
    return running


@pytest.mark.parametrize("command", ["import", "sweep", "characterize", "fio", "diskspd", "plan", "recorder"])
def test_all_that_a_killed_command_wrote_goes(place, command):
    """Nothing else ties the names by which leftovers are known to those that the writers give."""
    out = place / "result"
    if command == "recorder":
        with watching(out, KILLED):
            pass
    else:
        own_folder(out, place.parent / "source.iotrace", command)
    assert out.is_dir()
    remove_given_names(out)
    assert not out.exists()


@pytest.mark.parametrize("over", ["nothing", "an earlier one"])
def test_a_recorder_that_was_killed_with_its_sweep_hinders_no_later(place, over):
    out = place / "result"
    if over == "an earlier one":
        write_sweep(out)
        earlier = contents(out)
    with watching(out, KILLED):
        pass
    if over == "an earlier one":
        assert run(words(place, "import", out)[:-1]) == 2
        assert contents(out) == earlier
        assert [entry.name for entry in place.iterdir()] == ["result"]
    assert run(words(place, "import", out)) == 0
    assert [entry.name for entry in place.iterdir()] == ["result"]
    assert Recording.open(out).manifest.rows["io"] == 3


@pytest.mark.parametrize("why", ["its recorder lives", "somebody put a file there"])
def test_a_sweep_beside_which_something_is_recorded_is_not_replaced(place, why):
    out = place / "result"
    lives = why == "its recorder lives"
    with watching(out, "input()" if lives else KILLED) as running:
        if not lives:
            running.wait()
            (left,) = out.glob("steps/*.unfinished")
            (left / "thesis.txt").write_text("ten years of work")
        else:
            running.send_signal(signal.SIGSTOP)  # it lives, and writes nothing between the two looks
            os.waitid(os.P_PID, running.pid, os.WSTOPPED | os.WNOWAIT)
        before = contents(out)
        assert run(words(place, "import", out)) == 2
        assert contents(out).items() >= before.items()
        running.send_signal(signal.SIGCONT)
        running.stdin.close()


@pytest.mark.parametrize("lies", ["in it", "deeper"])
def test_what_somebody_put_into_a_leftover_stays(place, lies):
    left = place / ".result.partial-0123abcd"
    (left / "io").mkdir(parents=True)
    (left / "manifest.json").write_text("{}")
    mine = (left if lies == "in it" else left / "io") / "thesis.txt"
    mine.write_text("ten years of work")
    os.setxattr(left, MARK, b"")
    assert run(words(place, "import", place / "result")) == 0
    assert mine.read_text() == "ten years of work"
    assert not (left / "manifest.json").exists()


@pytest.mark.root
@pytest.mark.parametrize("target", [".result.partial-0123abcd", "result"])
def test_what_is_mounted_in_a_leftover_or_a_result_stays(place, target):
    """A folder of the same file system too, which has the same device number."""
    if os.geteuid():
        pytest.skip("mounting needs root")
    disk = place.parent / "disk"
    write_recording(disk / "steps" / "000-1x.iotrace", 40)
    if target == "result":
        write_sweep(place / "result")
        shutil.rmtree(place / "result" / "steps")
    at = place / target / "steps"
    at.mkdir(parents=True)
    os.setxattr(place / target, MARK, b"")
    before = evidence(disk)
    subprocess.run(["mount", "--bind", disk / "steps", at], check=True)
    try:
        status = run(words(place, "import", place / "result"))
    finally:
        subprocess.run(["umount", at], check=True)
    assert status == (2 if target == "result" else 0)
    assert evidence(disk) == before


def test_a_second_claim_of_the_same_process_gives_up_nothing(place):
    first = Claim(place)
    Claim(place).release()
    assert not is_claimed_elsewhere(place), "the lock is this process's own"
    code = (
        "import sys; from pathlib import Path; from iotrace.schemas.partials import is_claimed_elsewhere as asked\n"
        "print(asked(Path(sys.argv[1])))"
    )
    for expected in ("True", "False"):
        done = subprocess.run([sys.executable, "-c", code, place], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected
        first.release()
