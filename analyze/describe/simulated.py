"""Beside the figures of a recording that a model answered: how good the model is, and which limits held I/Os back."""

from collections.abc import Iterator

from iotrace.analyze.present import Cell, Count, Duration, Section, Sentence
from iotrace.analyze.present.answer import columns, section
from iotrace.analyze.units import DASH, format_duration_ns, format_share
from iotrace.schemas.models import tested_words
from iotrace.schemas.run import ModelFacts, ModelLimit


def model_sentences(model: ModelFacts) -> Iterator[str]:
    """What answered, and how far it can be believed."""
    yield f"every time is {tested_words(model)}"
    if (said := model.predicted) is not None:
        known = [
            f"{name} {format_duration_ns(one.low)} to {format_duration_ns(one.high)}"
            for name, one in (("p50", said.response_ns_p50), ("p99", said.response_ns_p99))
            if one is not None
        ]
        refused = (
            f"not to be relied on{' beyond that' if known else ''}: {said.refused}" if said.refused else ""
        )
        held = f"response by its 90 % intervals: {', '.join(known)}" if known else ""
        yield "; ".join(words for words in (held, refused) if words)


def model_sections(model: ModelFacts) -> list[Section]:
    """Which limits of a model held I/Os back, for how long, and what is left of its credits."""
    rows: list[tuple[Cell, ...]] = [
        (
            limit.name,
            Count(limit.waited_ios),
            f"{limit.throttled_seconds:,.1f} s",
            Duration(limit.wait_ns_sum / limit.waited_ios if limit.waited_ios else None),
            _credits(limit),
        )
        for limit in model.limits
    ]
    heads = columns("limit", "I/Os it held", "throttled", "mean wait", "credits left")
    heading = "What the model held back"
    found = list(section(heading, heads, rows))
    return found or [Section(heading, sentences=[Sentence("it has no limits: nothing waited for any")])]


def _credits(limit: ModelLimit) -> str:
    if not limit.credits:
        return DASH
    least, end = ((one or 0.0) / limit.credits for one in (limit.credits_least, limit.credits_end))
    return f"{format_share(end)} (least {format_share(least)})"
