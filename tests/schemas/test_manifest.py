"""What a manifest says of itself, and the words where it cannot be read or written."""

import json
from dataclasses import asdict, replace

import pytest

from iotrace.schemas import Clock, IotraceError, Kind, Manifest, Quality
from iotrace.schemas.contract import ContractError
from iotrace.schemas.manifest import Loss, Source, json_schema_text
from iotrace.schemas.run import ClosedLoop, ModelFacts, Replay
from iotrace.schemas.tables import FORMAT_VERSION

CLOCK = Clock(1_700_000_000_000_000_000, 1.0, "test")


def manifest(kind=Kind.CAPTURED, **more):
    return Manifest(kind, "a title", CLOCK, **more)


def test_nothing_is_known_to_be_wrong_of_what_was_just_begun():
    new = manifest()
    assert asdict(new.quality) == asdict(Quality()) | {"verdict": "good", "ended": "normally"}
    assert not any(value for name, value in asdict(new.quality).items() if name not in {"verdict", "ended"})
    assert (new.window_start_ns, new.window_end_ns, new.duration_ns) == (0, 0, 0)
    assert Clock(0, 1.0, "test").pairs == []
    assert (new.open_replay.interrupted, Source("a", "b").alignment) == (False, None)


def test_a_manifest_is_read_as_it_was_written():
    whole = manifest(window_start_ns=10, window_end_ns=35, rows={"io": 3})
    whole.quality = Quality(events_lost=2, losses=[Loss(7, 2, 0)], shared_time=["none"]).judge(3)
    text = whole.to_json()
    again = Manifest.from_json(text, "a.iotrace")
    assert asdict(again) == asdict(whole)
    assert again.duration_ns == 25
    assert text.startswith('{\n "kind": "captured",\n "title": "a title",\n')
    assert text.endswith("}\n")


def test_names_that_are_not_ascii_are_written_as_they_are():
    named = manifest()
    named.title = "Büro \udc80 日本"
    text = named.to_json()
    assert '"title": "Büro \N{REPLACEMENT CHARACTER} 日本"' in text
    assert Manifest.from_json(text, "a.iotrace").title == "Büro \N{REPLACEMENT CHARACTER} 日本"


def test_half_characters_are_replaced_wherever_they_stand():
    named = manifest()
    named.quality.notes = ["fine", "\ud800"]
    named.tools = {"to\udfffol": "1\udfff"}
    again = Manifest.from_json(named.to_json(), "a.iotrace")
    assert again.quality.notes == ["fine", "\N{REPLACEMENT CHARACTER}"]
    assert again.tools == {"to\N{REPLACEMENT CHARACTER}ol": "1\N{REPLACEMENT CHARACTER}"}


def test_a_time_that_no_file_can_hold_is_named_with_its_place():
    late = manifest(window_end_ns=1 << 64)
    with pytest.raises(IotraceError) as caught:
        late.to_json()
    assert caught.value.message == (
        f"what was read has a time or count that cannot be: window_end_ns is {1 << 64}"
    )
    assert caught.value.hint == "its source may be damaged"


def test_a_mistake_of_ours_is_no_word_to_the_user():
    wrong = manifest()
    wrong.title = 3
    with pytest.raises(ContractError):
        wrong.to_json()


@pytest.mark.parametrize(("version", "is_newer"), [(FORMAT_VERSION, False), (FORMAT_VERSION + 1, True)])
def test_only_a_later_format_is_newer(version, is_newer):
    text = json.dumps(json.loads(manifest().to_json()) | {"format_version": version})
    if not is_newer:
        assert Manifest.from_json(text, "a.iotrace").format_version == version
        return
    with pytest.raises(IotraceError) as caught:
        Manifest.from_json(text, "a.iotrace")
    assert caught.value.message == (
        f"'a.iotrace' was written by a newer iotrace (format {version}, this one reads {FORMAT_VERSION})"
    )
    assert caught.value.hint == "update iotrace on this machine"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        '"x"',
        "{}",
        "{",
        "[" * 100_000,
        '{"format_version": "2"}',
        '{"host": []}',
        '{"host": 3}',
    ],
)
def test_what_is_no_manifest_is_said_to_be_damaged(text):
    with pytest.raises(IotraceError) as caught:
        Manifest.from_json(text, "a.iotrace")
    assert caught.value.message.startswith("'a.iotrace' has a damaged manifest.json: ")
    assert len(caught.value.message) <= len("'a.iotrace' has a damaged manifest.json: ") + 200
    assert caught.value.hint == "restore it from a copy, or import the original trace again"


@pytest.mark.parametrize("version", [0, -1])
def test_a_format_before_the_first_is_damage(version):
    text = json.dumps(json.loads(manifest().to_json()) | {"format_version": version})
    with pytest.raises(IotraceError, match="damaged"):
        Manifest.from_json(text, "a.iotrace")


def test_which_kinds_were_played():
    played = {kind for kind in Kind if manifest(kind).is_played}
    assert played == {Kind.REPLAYED, Kind.SIMULATED}


def test_what_a_replay_says_of_itself():
    said = Replay(scale=4.0, interrupted=True)
    assert manifest(Kind.REPLAYED, replay=said).open_replay is said
    assert manifest(Kind.REPLAYED, replay=said).was_interrupted
    assert not manifest(Kind.REPLAYED, replay=replace(said, interrupted=False)).was_interrupted
    assert not manifest(Kind.REPLAYED, replay=said).is_closed_loop
    assert manifest().open_replay == Replay()
    assert not manifest().was_interrupted
    assert not manifest().is_closed_loop


def test_a_closed_loop_offers_no_rate():
    loop = ClosedLoop(loop="closed", interrupted=True)
    closed = manifest(Kind.REPLAYED, replay=loop)
    assert closed.is_closed_loop
    assert closed.was_interrupted
    assert closed.open_replay == Replay()


def test_only_a_simulation_has_a_model():
    facts = ModelFacts.__new__(ModelFacts)
    said = Replay(model=facts)
    assert manifest(Kind.SIMULATED, replay=said).model is facts
    assert manifest(Kind.REPLAYED, replay=said).model is None


def test_the_schema_is_text_that_ends_in_a_line():
    text = json_schema_text()
    assert list(json.loads(text)) == sorted(json.loads(text))
    assert text.endswith("}\n")
    assert text.startswith('{\n "')
