"""How a source's clock was brought onto the others' survives the manifest, and old manifests lack it."""

import json
from dataclasses import asdict

import pytest

from iotrace.schemas import Alignment, Clock, IotraceError, Manifest, Source

MEASURED = Alignment("measured", "I/Os that both saw", "a.etl", -5, 7, 9, 400, 1.5, 0.25)


def manifest(alignment=None):
    source = Source("b.xel", "xel", alignment=alignment)
    return Manifest("captured", "t", Clock(10**18, 1.0, "QPC", 15_625_000), sources=[source])


def test_an_alignment_comes_back_as_it_was_written():
    found = Manifest.from_json(manifest(MEASURED).to_json(), "x")
    assert found.sources[0].alignment == MEASURED
    assert found.clock.start_utc_uncertainty_ns == 15_625_000


def test_manifests_from_before_alignments_are_read():
    data = json.loads(manifest().to_json())
    del data["clock"]["start_utc_uncertainty_ns"], data["sources"][0]["alignment"]
    found = Manifest.from_json(json.dumps(data), "x")
    assert (found.sources[0].alignment, found.clock.start_utc_uncertainty_ns) == (None, None)


def test_what_a_later_iotrace_adds_is_left_out():
    data = json.loads(manifest(MEASURED).to_json())
    data["sources"][0]["alignment"]["later"] = 1
    assert Manifest.from_json(json.dumps(data), "x").sources[0].alignment == MEASURED


@pytest.mark.parametrize("wrong", [{"method": "guessed"}, {"uncertainty_ns": -1}])
def test_an_alignment_that_cannot_be_is_refused(wrong):
    data = json.loads(manifest(MEASURED).to_json())
    data["sources"][0]["alignment"] = asdict(MEASURED) | wrong
    with pytest.raises(IotraceError, match=r"damaged manifest\.json"):
        Manifest.from_json(json.dumps(data), "x")
