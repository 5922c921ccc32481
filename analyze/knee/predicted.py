"""How good the predictions of a sweep were: what was said of each step before it was played, beside what it came to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from iotrace.analyze.present import Cell, Duration, Section, Sentence, Table
from iotrace.analyze.present.answer import columns
from iotrace.analyze.units import DASH, format_duration_ns
from iotrace.schemas.run import PredictedNs, Prediction

from .step import Step

QUANTILES = ("p50", "p99")


@dataclass(frozen=True, slots=True)
class Said:
    """A quantile of a step's response, predicted with a 90 % interval and measured. ``runs``: learnt from so many."""

    scale: float
    quantile: str
    predicted: PredictedNs
    measured_ns: int
    runs: int

    @property
    def is_within(self) -> bool:
        """Whether the interval held."""
        return self.predicted.low <= self.measured_ns <= self.predicted.high

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted.value / max(1, self.measured_ns) - 1

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; times in nanoseconds."""
        return {
            "scale": self.scale,
            "quantile": self.quantile,
            "predicted_ns": self.predicted.value,
            "low_ns": self.predicted.low,
            "high_ns": self.predicted.high,
            "measured_ns": self.measured_ns,
            "is_within": self.is_within,
            "error": self.error,
            "runs": self.runs,
        }


@dataclass(frozen=True, slots=True)
class Predicted:
    """All that was said, in the order of the steps, and of which loads nothing could be."""

    said: list[Said]
    refused: list[tuple[float, str]]
    """Scale, and why."""
    unjudged: int = 0
    """Predictions of steps that tell of the load generator, not of the storage."""

    @property
    def within(self) -> int:
        """How many intervals held."""
        return sum(one.is_within for one in self.said)

    def error_median(self, quantile: str) -> float | None:
        """Median of the sizes of the errors."""
        errors = [abs(one.error) for one in self.said if one.quantile == quantile]
        return median(errors) if errors else None

    @property
    def sentence(self) -> str:
        """How good they were."""
        if not self.said and self.unjudged:
            return "No prediction can be held against its step: the load generator was late."
        if not self.said:
            return "No step could be predicted from the ones before it."
        errors = [
            f"{error:.0%} at the {name}"
            for name in QUANTILES
            if (error := self.error_median(name)) is not None
        ]
        return (
            f"Of {len(self.said)} predictions made before the steps were played {self.within} lay within their 90 % "
            f"interval; half of them were off by no more than {' and '.join(errors)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "sentence": self.sentence,
            "count": len(self.said),
            "within": self.within,
            "unjudged": self.unjudged,
            **{f"error_median_{name}": self.error_median(name) for name in QUANTILES},
            "said": [one.to_dict() for one in self.said],
            "refused": [{"scale": scale, "why": why} for scale, why in self.refused],
        }


def predicted_of(steps: Sequence[tuple[Step, Prediction | None]]) -> Predicted | None:
    """The predictions of steps that tell of the storage; None where none was made, as in a sweep of earlier days."""
    made = [(step, said) for step, said in steps if said is not None]
    if not made:
        return None
    found = Predicted([], [])
    unjudged = 0
    for step, prediction in made:
        scale = step.scale if step.scale is not None else 1.0
        if prediction.refused:
            found.refused.append((scale, prediction.refused))
        for name in QUANTILES:
            said: PredictedNs | None = getattr(prediction, f"response_ns_{name}")
            measured = step.response_ns[name]
            unjudged += said is not None and step.generator_limited
            if said is not None and measured is not None and not step.generator_limited:
                found.said.append(Said(scale, name, said, round(measured), prediction.runs))
    return replace(found, unjudged=unjudged)


def predicted_sections(found: Predicted) -> Iterator[Section]:
    """Predicted beside measured, load by load."""
    rows: list[tuple[Cell, ...]] = [
        (
            f"{one.scale:g}x",
            one.quantile,
            Duration(one.predicted.value),
            f"{format_duration_ns(one.predicted.low)} to {format_duration_ns(one.predicted.high)}",
            Duration(one.measured_ns),
            "yes" if one.is_within else "no",
            f"{one.error:+.0%}" if abs(one.error) < 10 else DASH,
        )
        for one in found.said
    ]
    heads = columns("load", "", "predicted", "90 % interval", "measured", "within", "off", text=2)
    notes = [f"at {scale:g}x not, or not all, predicted: {why}" for scale, why in found.refused]
    yield Section(
        "Predicted before it was played",
        Table(heads, rows) if rows else None,
        [Sentence(found.sentence)],
        notes,
    )
