"""How good the predictions of a sweep were: what was said of each step before it was played, beside what it came to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from iotrace.analyze.present import Cell, Duration, Section, Sentence, Table
from iotrace.analyze.present.answer import columns
from iotrace.analyze.present.program import figure
from iotrace.analyze.units import DASH, format_duration_ns, format_share
from iotrace.schemas.run import PredictedNs, Prediction

from .step import Step

QUANTILES = ("p50", "p99")


@dataclass(frozen=True, slots=True)
class Said:
    """A quantile of a step's response, predicted with a 90 % interval and measured. ``runs``: learnt from so many."""

    scale: float
    quantile: str
    predicted_ns: int
    low_ns: int
    high_ns: int
    measured_ns: int
    runs: int

    @figure
    def is_within(self) -> bool:
        """Whether the interval held."""
        return self.low_ns <= self.measured_ns <= self.high_ns

    @figure
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted_ns / max(1, self.measured_ns) - 1


@dataclass(frozen=True, slots=True)
class Refused:
    """A load of which nothing could be said."""

    scale: float
    why: str


@dataclass(frozen=True, slots=True)
class Predicted:
    """All that was said, in the order of the steps, and of which loads nothing could be."""

    said: list[Said]
    refused: list[Refused]
    unjudged: int = 0
    """Predictions of steps that tell of the load generator, not of the storage."""

    @figure
    def count(self) -> int:
        """How many predictions there are."""
        return len(self.said)

    @figure
    def within(self) -> int:
        """How many intervals held."""
        return sum(one.is_within for one in self.said)

    @figure
    def error_median_p50(self) -> float | None:
        """Median of the sizes of the errors of the p50; None without any."""
        return self._error_median("p50")

    @figure
    def error_median_p99(self) -> float | None:
        """The same of the p99."""
        return self._error_median("p99")

    def _error_median(self, quantile: str) -> float | None:
        errors = [abs(one.error) for one in self.said if one.quantile == quantile]
        return median(errors) if errors else None

    @figure
    def sentence(self) -> str:
        """How good they were."""
        if not self.said and self.unjudged:
            return "No prediction can be held against its step: the load generator was late."
        if not self.said:
            return "No step could be predicted from the ones before it."
        errors = [
            f"{format_share(error, 0)} at the {name}"
            for name in QUANTILES
            if (error := self._error_median(name)) is not None
        ]
        return (
            f"Of {len(self.said)} predictions made before the steps were played {self.within} lay within their 90 % "
            f"interval; half of them were off by no more than {' and '.join(errors)}."
        )


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
            found.refused.append(Refused(scale, prediction.refused))
        for name in QUANTILES:
            said: PredictedNs | None = getattr(prediction, f"response_ns_{name}")
            measured = step.response_ns[name]
            unjudged += said is not None and step.generator_limited
            if said is not None and measured is not None and not step.generator_limited:
                found.said.append(
                    Said(scale, name, said.value, said.low, said.high, round(measured), prediction.runs)
                )
    return replace(found, unjudged=unjudged)


def predicted_sections(found: Predicted) -> Iterator[Section]:
    """Predicted beside measured, load by load."""
    rows: list[tuple[Cell, ...]] = [
        (
            f"{one.scale:g}x",
            one.quantile,
            Duration(one.predicted_ns),
            f"{format_duration_ns(one.low_ns)} to {format_duration_ns(one.high_ns)}",
            Duration(one.measured_ns),
            "yes" if one.is_within else "no",
            format_share(one.error, 0, signed=True) if abs(one.error) < 10 else DASH,
        )
        for one in found.said
    ]
    heads = columns("load", "", "predicted", "90 % interval", "measured", "within", "off", text=2)
    notes = [f"at {one.scale:g}x not, or not all, predicted: {one.why}" for one in found.refused]
    yield Section(
        "Predicted before it was played",
        Table(heads, rows) if rows else None,
        [Sentence(found.sentence)],
        notes,
    )
