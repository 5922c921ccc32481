"""What a rule says of several steps at once."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from iotrace.analyze.validity import Finding, sweep
from iotrace.schemas import Clock, Manifest
from iotrace.schemas.run import ClosedLoop, Replay, TargetFacts


@pytest.mark.parametrize(
    ("fired", "expected"),
    [
        (2, "short (at 1x, 2x)"),
        (8, "short (at 1x, 2x, 3x, 4x, 5x, 6x, 7x, 8x)"),
        (9, "short (and likewise in 9 of 10 runs)"),
        (10, "short"),
    ],
)
def test_steps_are_named_while_they_are_few(
    monkeypatch: pytest.MonkeyPatch, fired: int, expected: str
) -> None:
    steps = [
        SimpleNamespace(manifest=Manifest("replayed", "", Clock(0, 1, ""), replay=Replay(scale=load)))
        for load in range(1, 11)
    ]
    finding = Finding("too-short", "invalid", "too short", "short", "play longer")
    monkeypatch.setattr(sweep, "check", lambda step: [finding] if step.manifest.replay.scale <= fired else [])
    (found,) = sweep.check_sweep(cast("Any", steps))
    assert found.detail == expected
    assert found.level == ("invalid" if fired == 10 else "warning")


def steps_with(monkeypatch: pytest.MonkeyPatch, found: dict[str, list[Finding]]) -> list[Any]:
    cell = ClosedLoop(loop="closed", targets=[TargetFacts("c"), TargetFacts("x")])
    steps = [
        SimpleNamespace(name=name, manifest=Manifest("replayed", "cell on c, x", Clock(0, 1, ""), replay=run))
        for name, run in (("a", Replay(scale=1.5)), ("b", Replay()), ("c", cell))
    ]
    monkeypatch.setattr(sweep, "check", lambda step: found[step.name])
    return cast("list[Any]", steps)


def test_what_invalidates_comes_first_whatever_fired_first(monkeypatch: pytest.MonkeyPatch) -> None:
    warning = Finding("w", "warning", "w", "wary", "h")
    invalid = Finding("i", "invalid", "i", "bad", "h")
    steps = steps_with(monkeypatch, {"a": [warning, invalid], "b": [invalid], "c": [invalid]})
    first, second = sweep.check_sweep(steps)
    assert (first.rule, first.level, first.detail) == ("i", "invalid", "bad")
    assert (second.rule, second.level, second.detail) == ("w", "warning", "wary (at 1.5x)")


def test_a_step_is_named_by_its_scale_its_cell_or_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    invalid = Finding("i", "invalid", "i", "bad", "h")
    steps = steps_with(monkeypatch, {"a": [], "b": [invalid], "c": [invalid]})
    assert sweep.check_sweep(steps)[0].detail == "bad (at b, cell)"
    assert sweep.check_sweep(steps)[0].level == "warning"
    steps[2].manifest.replay.targets.pop()
    assert sweep.check_sweep(steps)[0].detail == "bad (at b; cell on c, x)"
