"""From recordings and sweeps to the facts and charts of a report."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from iotrace.schemas import Recording, Sweep

from .. import histogram, library
from ..describe import describe
from ..description import Description
from ..histogram import Histogram, Histograms
from ..knee import knee
from ..slo import Objective
from . import verdict
from .charts import Chart
from .charts_knee import knee_charts
from .charts_latency import layer_chart, percentile_chart
from .charts_load import load_charts
from .charts_size import size_chart
from .facts import ObjectiveCheck, Origin, RecordingFacts, SweepFacts


@dataclass(frozen=True, slots=True)
class Section:
    """One input with the charts drawn of it."""

    facts: RecordingFacts | SweepFacts
    charts: list[Chart]


def sweep_section(sweep: Sweep, objectives: Sequence[Objective]) -> Section:
    """Find the knee of a sweep and draw it. Raises `IotraceError` as `knee` does."""
    found = knee(sweep.recordings(), slo=objectives, scales=[step.scale for step in sweep.steps])
    targets = sweep.settings.get("targets") or [sweep.settings.get("target")]
    target = ", ".join(str(one) for one in targets if one) or None
    name = sweep.path.name.removesuffix(".iotrace")
    facts = SweepFacts(
        name,
        sweep.title or name,
        target,
        dict(sweep.settings),
        found,
        verdict.sweep_verdict(found, target),
    )
    return Section(facts, knee_charts(found))


def recording_section(recording: Recording, objectives: Sequence[Objective]) -> Section:
    """Describe a recording and draw it. Raises `IotraceError` if it cannot be read."""
    described = describe(recording)
    charts: list[Chart] = []
    checks: list[ObjectiveCheck] = []
    layer = described.workload_layer
    if layer is not None:
        metric = described.headline_metric
        with library.opened(recording) as connection:
            histograms = Histograms(library.run(connection, "latency_histogram", metric=metric))
            by_op = {op: histograms.merged(layer=layer, op=op) for op in ("read", "write")}
            checks = [_check(objective, histograms, layer, metric) for objective in objectives]
            drawn = [
                percentile_chart(by_op, metric, layer),
                size_chart(described.sizes),
                layer_chart(described),
            ]
            window = (described.window_start_ns, described.window_ns)
            charts = load_charts(connection, layer, window, metric)
        charts += [chart for chart in drawn if chart is not None]
    facts = RecordingFacts(recording.name, described, checks, verdict.recording_sentence(described))
    return Section(facts, charts)


def origin(recording: Recording) -> Origin:
    """Where a recording comes from."""
    manifest = recording.manifest
    seconds, rest_ns = divmod(manifest.clock.start_utc_ns, 1_000_000_000)
    try:
        at = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        at = "unknown"
    host = manifest.host.get("name") or manifest.host.get("hostname") or ""
    return Origin(
        recording.name,
        manifest.uuid,
        manifest.kind,
        manifest.title or recording.name,
        f"{at}.{rest_ns // 1_000_000:03} UTC" if at != "unknown" else at,
        manifest.duration_ns,
        str(host),
        manifest.quality.verdict,
        list(manifest.quality.reasons),
        dict(manifest.tools),
        [
            {
                "name": source.name,
                "kind": source.kind,
                "bytes": source.bytes,
                "sha256": source.sha256,
                "events": source.events,
            }
            for source in manifest.sources
        ],
    )


def _check(objective: Objective, histograms: Histograms, layer: str, metric: str) -> ObjectiveCheck:
    where: dict[str, object] = {"layer": layer}
    if objective.role is not None:
        where["role"] = objective.role
    ops = [objective.op] if objective.op else ["read", "write"]
    merged = _sum([histograms.merged(op=op, **where) for op in ops])
    quantile_ns = (
        histogram.quantile_ns(merged.bucket_ns, merged.io_count, objective.quantile) if merged.total else None
    )
    is_met = None if quantile_ns is None else quantile_ns <= objective.limit_ns
    sentence = verdict.check_sentence(objective, metric, quantile_ns)
    return ObjectiveCheck(objective, metric, quantile_ns, merged.total, is_met, sentence)


def _sum(parts: Sequence[Histogram]) -> Histogram:
    buckets, inverse = np.unique(np.concatenate([part.bucket_ns for part in parts]), return_inverse=True)
    counts = np.zeros(len(buckets), dtype=np.int64)
    np.add.at(counts, inverse, np.concatenate([part.io_count for part in parts]))
    return Histogram(
        buckets,
        counts,
        sum(part.latency_sum_ns for part in parts),
        max(part.latency_max_ns for part in parts),
    )


__all__ = ["Description", "Section", "origin", "recording_section", "sweep_section"]
