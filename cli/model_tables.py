"""What a model did while it was played on: which limits held I/Os back, for how long, and what is left of credits."""

from typing import Any

from iotrace.analyze.units import DASH, format_count, format_duration_ns
from iotrace.schemas.models import tested_words

from . import console


def print_model(model: dict[str, Any]) -> None:
    """The sentence that belongs to every figure of it, and its limits."""
    console.paragraph(f"every time is {tested_words(model)}")
    if not model.get("limits"):
        console.paragraph("it has no limits: nothing waited for any")
        return
    rows = [
        [
            limit["name"],
            format_count(limit["waited_ios"]),
            f"{limit['throttled_seconds']:,.1f} s",
            format_duration_ns(limit["wait_ns_sum"] / limit["waited_ios"]) if limit["waited_ios"] else DASH,
            _credits(limit),
        ]
        for limit in model["limits"]
    ]
    console.table(["limit", "I/Os it held", "throttled", "mean wait", "credits left"], rows)


def _credits(limit: dict[str, Any]) -> str:
    if limit.get("credits") is None:
        return DASH
    least, end = (limit[name] / limit["credits"] for name in ("credits_least", "credits_end"))
    return f"{end:.0%} (least {least:.0%})" if limit["credits"] else DASH
