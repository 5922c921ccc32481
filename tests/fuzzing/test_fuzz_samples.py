"""Real traces cut, flipped and repeated: what is whole is kept and told as it was, and nothing is made up."""

import random
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

FOLDER = Path(__file__).parent
SAMPLES = FOLDER.parents[2] / "shared" / "samples"
SLOW = {
    "etl/perfview_net.4.5.x86.etl.zip",
    "etl/perfview_net.4.5.2.x64.etl.zip",
    "block/libcachesim_cloudPhysicsIO.vscsi",
}
TRACES = {
    "etl/etlparser_lxcore_kernel.etl": 0,
    "etl/krabsetw_powershell.etl": 0,
    "etl/perfview_net.4.5.x86.etl.zip": 300,
    "etl/perfview_net.4.5.2.x64.etl.zip": 600,
    "xel/sqltoolsservice_TestXel_0.xel": 100,
    "xel/tx_sqlhealth.xel": 100,
    "perfmon/tx_BasicPerfCounters.blg": 5_000,
    "perfmon/pal_SampleLog.blg": 5_000,
    "block/libcachesim_cloudPhysicsIO.vscsi": 100_000,
    "block/mqsim_tpcc-small.trace": 6_000,
    "linux/takeoverjp_sample.blktrace.1": 1_900,
    "linux/takeoverjp_sample.blkparse.txt": 1_900,
    "linux/fio_t0038.iolog": 10,
}
"""Samples, and how many facts a whole one has at least."""
FACTS = {
    "io": ["layer", "op", "issued_ns", "completed_ns", "offset_bytes", "size_bytes"],
    "counters": ["at_ns", "object", "instance", "counter", "value"],
    "xevents": ["at_ns", "name", "fields"],
}
CUTS = (0.4, 0.77, 0.999)


def file_of(name, folder):
    """A sample as a file."""
    path = SAMPLES / name
    if not path.is_file():
        pytest.skip(f"no {path}")
    if path.suffix != ".zip":
        return path
    with zipfile.ZipFile(path) as archive:
        member = max(archive.infolist(), key=lambda one: one.filename.endswith(".etl") * one.file_size)
        unpacked = folder / path.stem
        unpacked.write_bytes(archive.read(member))
    return unpacked


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in TRACES]
)
def trace(request, tmp_path):
    """A sample as a file, and how many facts it has at least."""
    return file_of(request.param, tmp_path), TRACES[request.param]


def facts(recording):
    """How often the recording tells each thing; of I/Os those that ended: the whole may know an end the cut lacks."""
    found = Counter()
    for table, columns in FACTS.items():
        for part in sorted(recording.path.rglob(f"{table}*.parquet")):
            rows = pq.read_table(part, columns=columns)
            if table == "io" and rows.column("completed_ns").null_count < len(rows):
                rows = rows.filter(rows.column("completed_ns").is_valid())
            found.update(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    return found


def test_a_cut_trace_tells_what_the_whole_one_tells_and_that_it_is_cut(trace, tmp_path):
    path, least = trace
    data = path.read_bytes()
    whole = facts(import_files([path], tmp_path / "whole.iotrace"))
    assert whole.total() >= least
    before = 0
    for share in CUTS:
        cut = tmp_path / "cut"
        left = data[: int(len(data) * share) | 1]
        cut.write_bytes(left)
        recording = import_files([cut], tmp_path / "cut.iotrace", overwrite=True)
        assert validate(recording.path) == []
        kept = facts(recording)
        assert kept <= whole, list((kept - whole).items())[:3]
        assert kept.total() >= before
        before = kept.total()
        # At the end of a line nobody could tell; behind the last fact nothing is missing.
        assert recording.manifest.quality.truncated_tail or left.endswith(b"\n") or kept == whole
    assert before >= least * 0.9


@pytest.mark.slow
def test_damage_leaves_a_valid_recording_or_a_clear_word(trace, tmp_path):
    path, _ = trace
    chance = random.Random(path.name)
    data = path.read_bytes()
    for _ in range(4):
        damaged = bytearray(data)
        for _ in range(chance.choice([1, 20])):
            damaged[chance.randrange(len(data))] = chance.randrange(256)
        at = chance.randrange(len(data))
        damaged[at:at] = damaged[at : at + chance.choice([7, 512, 65_536])]
        (tmp_path / "damaged").write_bytes(damaged)
        problem = None
        try:
            recording = import_files([tmp_path / "damaged"], tmp_path / "out.iotrace", overwrite=True)
        except IotraceError as refusal:
            problem = refusal
        if problem is None:
            assert validate(recording.path) == []
        else:
            assert problem.hint
            assert "damaged" in problem.message  # the file's name


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="memory and time are bounded by what Linux offers"
)
@pytest.mark.parametrize(
    "names",
    [sorted(set(TRACES) - SLOW), pytest.param(sorted(SLOW), marks=pytest.mark.slow)],
    ids=["small", "large"],
)
def test_damage_stays_within_memory_and_time(names, tmp_path):
    paths = [file_of(name, tmp_path) for name in names]
    done = subprocess.run(
        [sys.executable, FOLDER / "worker.py", "damage", "6", "1", tmp_path, *paths],
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, (
        f"at {done.stdout.splitlines()[-1:]}: {done.returncode}\n{done.stderr[-2000:]}"
    )
