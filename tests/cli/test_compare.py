"""iotrace compare on the command line: several recordings, tables that fit a terminal, JSON, exit status."""

import json

import numpy as np
import pyarrow as pa
import pytest

from ..recordings import table_of, write_recording

SECOND = 1_000_000_000


def _write(path, seed, factor, size_bytes=8192):
    """40 s of 500 reads a second, log-normal, at two layers; the title is hostile to a terminal."""
    source = np.random.default_rng(seed)
    at = np.sort(source.integers(0, 40 * SECOND, 20_000))
    latency = (factor * 400_000 * np.exp(0.5 * source.normal(size=20_000))).astype(np.int64) + 10_000
    offset = (source.integers(0, 1 << 22, len(at)) * 8192).astype(np.uint64)
    both = {"completed_ns": at + latency, "offset_bytes": offset, "size_bytes": size_bytes, "error": 0}
    layers = [
        table_of(both | {"layer": layer, "issued_ns": at + above})
        for layer, above in (("block", 0), ("device", 10_000))
    ]
    write_recording(path, pa.concat_tables(layers), title="\x1b[31m[b]old", window_end_ns=40 * SECOND)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    _write(folder / "old.iotrace", 1, 1.0)
    _write(folder / "slow.iotrace", 2, 2.0)
    _write(folder / "fast.iotrace", 3, 0.5)
    _write(folder / "other.iotrace", 4, 1.0, size_bytes=65536)
    return folder


def test_two_recordings_side_by_side(folder, iotrace):
    done = iotrace("compare", folder / "old.iotrace", folder / "slow.iotrace")
    assert done.status == 0, done.err
    assert "\x1b[31m" not in done.out
    assert max(len(line) for line in done.out.splitlines()) <= 80
    assert "Reads: B is slower: p99 service" in " ".join(done.out.split())
    assert "Did B do the same work? Yes" in done.out
    assert "Where the time goes in A" in done.out


def test_three_recordings_are_each_held_against_the_first(folder, iotrace):
    names = [folder / f"{name}.iotrace" for name in ("old", "slow", "fast")]
    shown = iotrace("compare", *names)
    assert shown.status == 0, shown.err
    assert max(len(line) for line in shown.out.splitlines()) <= 80
    assert "Did C do the same work? Yes" in shown.out
    found = json.loads(iotrace("compare", *names, "--json").out)["comparisons"]
    assert [one["b"]["label"] for one in found] == ["B", "C"]
    assert [one["verdicts"][0]["direction"] for one in found] == ["slower", "faster"]
    for one, factor in zip(found, (2.0, 0.5), strict=True):
        (p50,) = [figure for figure in one["classes"][0]["figures"] if figure["quantity"] == "p50"]
        # 10 µs of each latency are the same in all of them; medians of 20,000 are within some 2 %.
        assert p50["ratio"] == pytest.approx((factor * 400 + 10) / 410, rel=0.03)
        assert p50["ratio_interval"][1] - p50["ratio_interval"][0] < 0.1 * factor


def test_other_work_ends_with_status_1_and_says_why(folder, iotrace):
    done = iotrace("compare", folder / "old.iotrace", folder / "other.iotrace", "--json")
    assert done.status == 1
    found = json.loads(done.out)
    (finding,) = [one for one in found["findings"] if one["rule"] == "unlike-work"]
    assert finding["recording"] == "B: other.iotrace"
    assert finding["level"] == "invalid"
    assert "100 % of the I/Os have no counterpart" in finding["detail"]


def test_one_recording_is_not_enough(folder, iotrace):
    done = iotrace("compare", folder / "old.iotrace")
    assert done.status == 2
    assert "B" in done.err
