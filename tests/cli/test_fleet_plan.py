"""Plans of a load from several machines: what is read from them, and what is refused before anybody is asked."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from iotrace.cli import main as command_line
from iotrace.cli.fleet_plan import example, load_of, read_plan
from iotrace.schemas import Clock, IotraceError, Manifest, Recording, RecordingWriter

from .fleets import many_threads

HOUR_NS = 3600 * 10**9
NIGHT_NS = 1_790_000_000 * 10**9


def recorded(path: Path, start_utc_ns: int, seconds: int = 3600) -> Recording:
    with RecordingWriter(path) as writer:
        writer.append("devices", pa.table({"device_id": [0], "name": ["disk 0"], "kind": ["disk"]}))
        at_ns = np.arange(seconds) * 10**9
        writer.append("io", pa.table({
            "layer": ["block"] * seconds, "op": ["read"] * seconds, "issued_ns": at_ns, "completed_ns": at_ns + 1000,
            "offset_bytes": at_ns * 0, "size_bytes": [8192] * seconds, "device_id": [0] * seconds,
        }))  # fmt: skip
        manifest = Manifest("captured", path.stem, Clock(start_utc_ns, 100, "planted"))
        manifest.window_end_ns = seconds * 10**9
        return writer.commit(manifest)


def plan(folder: Path, text: str) -> Path:
    (folder / "plan.toml").write_text(text)
    return folder / "plan.toml"


def test_the_example_is_a_plan(tmp_path: Path) -> None:
    many_threads(tmp_path / "prod.iotrace", ios_per_second=100, seconds=1)
    load = load_of(read_plan(plan(tmp_path, example())), tmp_path)
    assert [part.host for part in load.parts] == ["gen1", "gen2"]
    assert [part.options.shard.number for part in load.parts if part.options.shard] == [0, 1]
    assert load.options.scale == 2.0


def test_hosts_own_recordings_keep_what_happened_at_the_same_time(tmp_path: Path) -> None:
    """One began at midnight for an hour, the other half an hour later: together they last an hour and a half."""
    recorded(tmp_path / "a.iotrace", NIGHT_NS)
    recorded(tmp_path / "b.iotrace", NIGHT_NS + HOUR_NS // 2)
    text = "".join(
        f'[[generator]]\nname = "{one}"\nrecording = "{one}.iotrace"\ntarget = "/t"\n' for one in "ab"
    )

    first, second = (
        part.options.window_ns for part in load_of(read_plan(plan(tmp_path, text)), tmp_path).parts
    )

    assert first is not None
    assert second is not None
    assert first[0] == 0
    assert second[0] == -HOUR_NS // 2
    assert first[1] - first[0] == second[1] - second[0] == 3 * HOUR_NS // 2 + 1


def test_recordings_of_different_nights_are_refused_unless_asked_for(tmp_path: Path) -> None:
    recorded(tmp_path / "a.iotrace", NIGHT_NS)
    recorded(tmp_path / "b.iotrace", NIGHT_NS + 24 * HOUR_NS)
    text = "".join(
        f'[[generator]]\nname = "{one}"\nrecording = "{one}.iotrace"\ntarget = "/t"\n' for one in "ab"
    )
    with pytest.raises(IotraceError, match="no moment in common"):
        load_of(read_plan(plan(tmp_path, text)), tmp_path)
    from_start = load_of(read_plan(plan(tmp_path, 'align = "start"\n' + text)), tmp_path)
    assert len({part.options.window_ns for part in from_start.parts}) == 1


TWO = '[[generator]]\nname = "a"\ntarget = "/t"\n[[generator]]\nname = "b"\ntarget = "/t"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no generator"),
        (TWO, "'a' is to play is not clear: it has none"),
        ('recording = "x"\n' + TWO.replace('"b"', '"a"'), "'a' twice"),
        ('recording = "x"\n' + TWO + 'recording = "y"\n', "both the plan and its generator"),
        ('recording = "x"\n' + TWO.replace("/t", "model:p30"), "is a model"),
        ('recording = "x"\nscales = "2x"\n' + TWO, "scales"),
        ("recording = 1\n" + TWO, "recording"),
        ('recording = "x"\n' + TWO + "share = 0\n", "share"),
        ("recording = [", "not TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(IotraceError, match=said):
        read_plan(plan(tmp_path, text))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ('mode = "think"', "different machines"),
        ('silence = "1s"', "silence"),
        ('scale = "0x"', "not a scale"),
        ('layer = "sql"', "no I/O of the layer"),
    ],
)
def test_what_cannot_be_played_is_refused(tmp_path: Path, words: str, said: str) -> None:
    many_threads(tmp_path / "prod.iotrace", ios_per_second=100, seconds=1)
    path = plan(tmp_path, f'recording = "prod.iotrace"\n{words}\n{TWO}')
    with pytest.raises(IotraceError, match=said):
        load_of(read_plan(path), tmp_path)


def test_the_name_of_what_is_played_stands_in_quotes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many_threads(tmp_path / "prod.iotrace", ios_per_second=100, seconds=1)
    assert command_line.run(["fleet", "plan", str(plan(tmp_path, f'recording = "prod.iotrace"\n{TWO}'))]) == 0
    title = Recording.open(tmp_path / "prod.iotrace").manifest.title
    assert capsys.readouterr().out.startswith(f"2 generators play '{title}' at 1x")
