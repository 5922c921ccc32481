"""What forbids to rely on figures is said before them; how whole a file is does not sound like praise of them.

``compare`` once said "2.32x slower", and sixty lines later that the replay itself had run late; ``replay`` ended with
"quality: good" two lines after "generator-limited".
"""

import json

import numpy as np
import pytest

from iotrace.cli.main import run
from iotrace.schemas import Quality

from ..recordings import write_recording


@pytest.fixture
def two(tmp_path):
    """A capture, and a replay of it that was three times slower because it ran late itself."""
    generator = np.random.default_rng(3)
    issued = np.sort(generator.integers(0, 60 * 10**9, 6000))
    for name, slower, more in (
        ("a", 1, {"kind": "captured"}),
        (
            "b",
            3,
            {
                "kind": "replayed",
                "replay": {"generator_limited": True, "issued_ios": 6000, "planned_ios": 6000},
            },
        ),
    ):
        took = (generator.lognormal(13, 0.3, 6000) * slower).astype(np.int64)
        columns = {"issued_ns": issued, "completed_ns": issued + took}
        if name == "b":
            columns["intended_ns"] = issued
        write_recording(
            tmp_path / f"{name}.iotrace",
            columns,
            title=name,
            window_end_ns=60 * 10**9,
            quality=Quality().judge(6000),
            **more,
        )
    return tmp_path / "a.iotrace", tmp_path / "b.iotrace"


def test_compare_says_first_that_it_must_not_be_relied_on(two, capsys):
    assert run(["compare", *map(str, two)]) == 1
    text = capsys.readouterr().out
    assert text.lstrip().startswith("Not to be relied on: B: b.iotrace")
    assert text.index("the replay itself ran late") < text.index("slower")
    assert text.index("if they could be relied on") < text.index("slower")
    assert "good" not in text


def test_compare_of_what_is_valid_begins_with_the_answer(two, capsys):
    run(["compare", str(two[0]), str(two[0])])
    text = capsys.readouterr().out
    assert text.startswith("Reads: these recordings show no difference between A and B")


def test_compare_names_first_what_endangers_its_answer_most(two, capsys):
    """A has too few I/Os for a p99, which leaves the median; B's every latency is partly the replay's own."""
    manifest = two[1] / "manifest.json"
    text = manifest.read_text("utf-8").replace('"generator_limited": true', '"generator_limited": false')
    manifest.write_text(text.replace('"backend": null', '"backend": "threads"'), "utf-8")
    run(["compare", *map(str, two)])
    text = " ".join(capsys.readouterr().out.split())
    assert "Before you trust it: threads played the I/O, not io_uring; 1 more below" in text
    assert "warning: too few I/Os for a p99" in text


def test_describe_and_incident_say_it_first_too_and_json_has_it_first(two, capsys):
    for command in ("describe", "incident"):
        run([command, str(two[1])])
        text = capsys.readouterr().out
        assert text.lstrip().startswith("Not to be relied on: b.iotrace")
        assert "the replay itself ran late" in "".join(text.lstrip().splitlines()[:2])
        assert "Trust: " not in text
        assert "b.iotrace: recorded without known loss" in text
    for words in (["describe", str(two[1])], ["incident", str(two[1])], ["compare", *map(str, two)]):
        run([*words, "--json"])
        found = json.loads(capsys.readouterr().out)
        found.pop("schema", None)
        assert (next(iter(found)), found["is_valid"]) == ("is_valid", False)


def test_describe_says_first_that_sources_share_no_time(two, capsys):
    manifest = two[0] / "manifest.json"
    apart = "'b.blg' begins 3.0 years after 'a.etl' ends: they share no time"
    content = json.loads(manifest.read_text("utf-8"))
    content["quality"]["shared_time"] = [apart]
    manifest.write_text(json.dumps(content), "utf-8")
    run(["describe", str(two[0])])
    title, first, *_ = filter(None, capsys.readouterr().out.splitlines())
    assert title.startswith("a: captured")
    assert first.startswith("not the same time: 'b.blg' begins 3.0 years after")


@pytest.mark.parametrize(
    "words",
    [
        ("replay", "RECORDING"),
        ("sweep", "RECORDING", "--scales", "1x,2x", "--step-seconds", "0.5"),
        ("characterize", "--file-size", "4M", "--outstanding", "1,2", "--seconds", "0.5", "--warm-up", "0.1"),
    ],
    ids=lambda words: words[0],
)
def test_what_was_measured_through_the_cache_is_said_to_be_so_before_any_figure(
    words, iotrace, reads, tmp_path
):
    words = [str(reads.path) if word == "RECORDING" else word for word in words]
    where = ("--target", str(tmp_path / "t.bin"), "--buffered", "-o", str(tmp_path / "out.iotrace"))
    result = iotrace(*words, *where)
    assert result.status == 1
    first, *_ = result.out.strip().splitlines()
    assert first.startswith("Not to be relied on:")
    assert "IOPS" not in result.out[: result.out.index("the host's cache was")]
    # On a machine too busy to drive any step there is nothing to say if it could be relied on.
    assert "\nThe knee lies" not in result.out.partition("if they could be relied on")[0]
    assert "good" not in result.out
    found = json.loads(iotrace(*words, *where, "--overwrite", "--json").out)
    assert any(entry["level"] == "invalid" for entry in found["findings"])
    assert found.get("is_valid", False) is False


def test_knee_of_a_sweep_through_the_cache_says_so_first(iotrace, reads, tmp_path):
    out = tmp_path / "out.iotrace"
    iotrace(
        "sweep", reads.path, "--target", tmp_path / "t.bin", "--buffered",
        "--scales", "1x,2x", "--step-seconds", "0.5", "-o", out,
    )  # fmt: skip
    text = iotrace("knee", out).out
    assert text.startswith("Not to be relied on: out.iotrace: the host's cache was in the way")
