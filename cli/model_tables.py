"""What a model did while it was played on: which limits held I/Os back, for how long, and what is left of credits."""

from iotrace.analyze.units import DASH, format_count, format_duration_ns
from iotrace.schemas.models import tested_words
from iotrace.schemas.run import ModelFacts, ModelLimit

from . import console


def print_model(model: ModelFacts) -> None:
    """The sentence that belongs to every figure of it, and its limits."""
    console.paragraph(f"every time is {tested_words(model)}")
    if not model.limits:
        console.paragraph("it has no limits: nothing waited for any")
        return
    rows = [
        [
            limit.name,
            format_count(limit.waited_ios),
            f"{limit.throttled_seconds:,.1f} s",
            format_duration_ns(limit.wait_ns_sum / limit.waited_ios) if limit.waited_ios else DASH,
            _credits(limit),
        ]
        for limit in model.limits
    ]
    console.table(["limit", "I/Os it held", "throttled", "mean wait", "credits left"], rows)


def _credits(limit: ModelLimit) -> str:
    if not limit.credits:
        return DASH
    end, least = ((one or 0.0) / limit.credits for one in (limit.credits_end, limit.credits_least))
    return f"{end:.0%} (least {least:.0%})"
