"""What a rule says of several steps at once."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from iotrace.analyze.validity import Finding, sweep
from iotrace.schemas import Clock, Manifest
from iotrace.schemas.run import Replay


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
