"""From recordings and sweeps to the facts and sections of a report."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np

from iotrace.analyze import library
from iotrace.analyze.ceiling import Path as HardwarePath
from iotrace.analyze.ceiling.against_knee import BesideKnee, beside_knee
from iotrace.analyze.compare.comparison import Comparison
from iotrace.analyze.compare.presentation import comparison_sections, verdict_sentences
from iotrace.analyze.compare.recordings import compare_all
from iotrace.analyze.compare.waterfall import waterfall
from iotrace.analyze.compare.words import inconclusive_means, without_interval
from iotrace.analyze.describe.presentation import opening
from iotrace.analyze.describe.recording import describe_opened
from iotrace.analyze.describe.simulated import model_sections, model_sentences
from iotrace.analyze.knee.series import knee_of_sweep
from iotrace.analyze.slo import Objective
from iotrace.analyze.stats import histogram
from iotrace.analyze.stats.histogram import Histogram, Histograms
from iotrace.analyze.unfinished import Unfinished, unfinished
from iotrace.schemas import Recording, Sweep
from iotrace.schemas.models import model_words
from iotrace.schemas.vocabulary import layers_above

from . import tables, verdict
from .charts_compare import ratio_chart
from .charts_knee import knee_charts, series_chart
from .charts_latency import layer_chart, pair_chart, percentile_chart
from .charts_size import size_chart, stream_name
from .charts_time import SLOTS_MAX, time_charts
from .facts import ComparisonFacts, ObjectiveCheck, RecordingFacts, SweepFacts
from .incidents import counters_beside, find_incidents, incident_section, incident_sentence, marked
from .objectives import over_layers, without_ios
from .parts import Chart, Section
from .plot import TimeAxis
from .tables import RECORDINGS_BRIEF

_COMPARED_MAX = 4
_DRAWN_MAX = 3
"""Of more recordings than are told whole, so many are drawn: those that slow windows cost most."""
_SLOTS_IN_ALL = 4 * SLOTS_MAX
_SLOTS_MIN = 180
_PAIRED_OPS = ("read", "write")


def tell_sweep(
    sweep: Sweep,
    objectives: Sequence[Objective],
    path: HardwarePath | None = None,
    need: float | None = None,
) -> tuple[SweepFacts, Section]:
    """Find the knee of a sweep and draw it, beside the ceiling of ``path`` and the load that is needed.

    Raises `IotraceError` as `knee` does.
    """
    steps = sweep.recordings()
    found = knee_of_sweep(sweep, slo=objectives)
    held = beside_knee(path, found, steps) if path is not None else None
    target = ", ".join(sweep.settings.targets) or None
    name = sweep.path.name.removesuffix(".iotrace")
    said = verdict.sweep_verdict(found, verdict.candidate(target, name))
    facts = SweepFacts(
        name,
        sweep.title or name,
        target,
        asdict(sweep.settings),
        found,
        said,
        held,
        model_words(steps),
        sweep.source_uuid,
    )
    is_closed = all(step.outstanding is not None for step in found.steps)
    section = Section(
        f"{'Closed loops' if is_closed else 'Sweep'}: {facts.title}",
        " ".join([found.sentence, *([f"{found.headroom}."] if found.headroom else [])]),
        points=[
            *(one.sentence for one in found.objectives),
            *(cause.sentence for cause in found.causes),
            *_beside(held),
        ],
        notes=found.notes,
        charts=knee_charts(found, need),
        tables=tables.sweep_tables(facts),
    )
    return facts, section


def _beside(held: BesideKnee | None) -> list[str]:
    if held is None:
        return []
    return [held.sentence, *(one.sentence for one in held.suggestions)]


def tell_series(sweeps: Sequence[SweepFacts]) -> Section | None:
    """Series of closed loops beside one another; None for fewer than two."""
    closed = [one for one in sweeps if all(step.outstanding is not None for step in one.knee.steps)]
    chart = series_chart([(one.title, one.knee) for one in closed])
    if chart is None:
        return None
    return Section(
        "Closed loops beside one another",
        f"{len(closed)} series of closed loops, by I/Os outstanding.",
        points=[cause.sentence for cause in verdict.series_causes(closed)],
        charts=[chart],
    )


def slots_for(recordings: int) -> int:
    """Steps of time that each of so many recordings is drawn in, so that the page stays small enough to be mailed."""
    drawn = recordings if recordings <= RECORDINGS_BRIEF else _DRAWN_MAX
    return max(min(SLOTS_MAX, _SLOTS_IN_ALL // max(drawn, 1)), _SLOTS_MIN)


def distinct_titles(recordings: Sequence[Recording]) -> list[str]:
    """What to call each of the recordings: its title, and its name where others have the same title."""
    titles = [one.manifest.title or one.name for one in recordings]
    return [
        f"{title}, {one.name}" if titles.count(title) > 1 and title != one.name else title
        for one, title in zip(recordings, titles, strict=True)
    ]


def tell_recording(
    recording: Recording,
    objectives: Sequence[Objective],
    *,
    title: str | None = None,
    number: int = 1,
    slots_max: int = SLOTS_MAX,
) -> tuple[RecordingFacts, list[Section]]:
    """Describe a recording, find its slow windows and draw both. Raises `IotraceError` if it cannot be read.

    ``title`` and ``number`` tell it from others on the page; over time it is drawn in at most ``slots_max`` steps.
    """
    group = f"r{number}"
    with library.opened(recording) as connection:
        described, histograms = describe_opened(recording, connection)
        described = replace(described, title=title or described.title)
        incidents = find_incidents(recording, connection)
        incidents = incidents and replace(incidents, title=described.title)
        charts: list[Chart] = []
        checks: list[ObjectiveCheck] = []
        waiting: dict[str, Unfinished] = {}
        layer, metric = described.workload_layer, described.headline_metric
        if layer is not None:
            charts = time_charts(
                recording,
                connection,
                layer,
                TimeAxis(
                    described.window_start_ns,
                    max(described.window_ns, 1),
                    recording.manifest.clock.start_utc_ns,
                ),
                metric,
                marked(incidents, f"{group}-") if incidents else (),
                counters=counters_beside(incidents) if incidents else (),
                group=group,
                slots_max=slots_max,
            )
            if objectives:
                ask = partial(library.run, connection)
                waiting = {
                    one: unfinished(ask, recording.manifest, one, metric)
                    for one in (*layers_above(layer, [one.layer for one in described.layers]), layer)
                }
    if layer is not None:
        checks = [
            over_layers([_check(objective, histograms[metric], one, metric, waiting[one]) for one in waiting])
            for objective in objectives
        ]
        streams = dict.fromkeys((size.role, size.op) for size in described.sizes if size.op in _PAIRED_OPS)
        by_stream = {
            stream_name(role, op): histograms[metric].merged(layer=layer, role=role, op=op)
            for role, op in streams
        }
        drawn = [
            percentile_chart(by_stream, metric, layer),
            size_chart(described.sizes),
            layer_chart({"": waterfall(histograms["service"], [one.layer for one in described.layers])}),
        ]
        charts += [chart for chart in drawn if chart is not None]
    else:
        checks = [without_ios(objective, described) for objective in objectives]
    sentence = " ".join(f"{one.text}." for one in opening(described, title_characters=160))
    facts = RecordingFacts(recording.name, described, checks, sentence, incidents)
    all_tables = tables.recording_tables(facts)
    model = recording.manifest.model
    said = [f"{words[0].upper()}{words[1:]}." for words in model_sentences(model)] if model else []
    held_back = tables.page_tables(model_sections(model)) if model else []
    section = Section(
        f"Recording: {described.title}",
        facts.sentence,
        points=[
            *said,
            *(check.sentence for check in checks),
            *([incident_sentence(incidents)] if incidents and not incidents.is_slow else []),
        ],
        notes=list(described.notes),
        lead=[*held_back, *all_tables[:2]],
        charts=charts,
        tables=all_tables[2:],
    )
    slow = (
        incident_section(recording, incidents, prefix=f"{group}-", group=group, points_max=slots_max)
        if incidents
        else None
    )
    return facts, [slow, section] if slow else [section]


def leave_undrawn(told: Sequence[tuple[RecordingFacts, list[Section]]]) -> None:
    """Of many recordings, take the charts off the sections of those that slow windows cost least.

    They keep their sentences and first tables, and say how to have the rest.
    """
    if len(told) <= RECORDINGS_BRIEF:
        return
    by_cost = sorted(told, key=lambda one: -_lost_ns(one[0]))
    for facts, sections in by_cost[_DRAWN_MAX:]:
        for section in sections:
            section.charts, section.tables = [], []
        sections[-1].notes.append(
            f"Drawn are the {_DRAWN_MAX} recordings that slow windows cost most. A report on this one alone has its "
            f"charts: iotrace report {facts.name}"
        )


def _lost_ns(facts: RecordingFacts) -> float:
    slow = facts.slow_times
    return 0.0 if slow is None else sum(window.lost_ns for window in (*slow.windows, *slow.drifts))


def compared(recordings: Sequence[Recording]) -> tuple[Recording, list[Recording]] | None:
    """What is held against what: the others against the first one captured, or against the first.

    Closed loops have no load in common with anything and recordings without I/Os no latencies, so they are left out. Of
    many recordings only replays are compared.
    """
    alike = [one for one in recordings if not one.manifest.is_closed_loop and one.manifest.rows.get("io")]
    if len(alike) < 2:
        return None
    first = next((place for place, one in enumerate(alike) if not one.manifest.is_played), 0)
    base = alike.pop(first)
    if len(recordings) > RECORDINGS_BRIEF:
        # Many captures are many servers, and no server is compared with another; replays are with what they played.
        alike = [one for one in alike if one.manifest.is_played]
    return (base, alike[:_COMPARED_MAX]) if alike else None


def tell_comparisons(recordings: Sequence[Recording]) -> list[tuple[ComparisonFacts, Section]]:
    """Compare the recordings that can be compared, and draw it. Raises `IotraceError` if one cannot be read."""
    sides = compared(recordings)
    if sides is None:
        return []
    base, others = sides
    return [
        _tell_comparison(base, after, found)
        for after, found in zip(others, compare_all(base, others), strict=True)
    ]


def _tell_comparison(
    before: Recording, after: Recording, found: Comparison
) -> tuple[ComparisonFacts, Section]:
    facts = ComparisonFacts(before.name, after.name, verdict.comparison_sentence(found), found)
    drawn = [
        ratio_chart(found),
        _pair_chart(before, after, found),
        layer_chart({found.a.label: found.a.waterfall, found.b.label: found.b.waterfall}),
    ]
    starts = {
        found.a.label: before.manifest.clock.start_utc_ns,
        found.b.label: after.manifest.clock.start_utc_ns,
    }
    shown = tables.page_tables(comparison_sections([found], starts))
    section = Section(
        f"Comparison: {found.b.label} against {found.a.label}",
        f"{found.a.label}: {found.a.title}. {found.b.label}: {found.b.title}.",
        points=[one.text for one in verdict_sentences(found)],
        notes=[
            *found.basis,
            *(f"{warning[:1].upper()}{warning[1:]}." for warning in found.warnings),
            *([f"Not compared: {'; '.join(found.unmatched[:12])}."] if found.unmatched else []),
            *([f"{words[:1].upper()}{words[1:]}."] if (words := inconclusive_means(found)) else []),
            *([missing] if (missing := without_interval(found.classes)) else []),
        ],
        lead=shown[:2],
        charts=[chart for chart in drawn if chart is not None],
        tables=shown[2:],
    )
    return facts, section


def _pair_chart(before: Recording, after: Recording, found: Comparison) -> Chart | None:
    metrics = next(
        ((one.a_metric, one.b_metric) for one in found.classes if one.b_metric == found.headline_metric), None
    )
    if metrics is None:
        return None
    sides = []
    for recording, side, metric in ((before, found.a, metrics[0]), (after, found.b, metrics[1])):
        with library.opened(recording) as connection:
            histograms = Histograms(library.run(connection, "latency_histogram", metric=metric))
        sides.append({op: histograms.merged(layer=side.layer, op=op) for op in _PAIRED_OPS})
    return pair_chart(
        {op: (sides[0][op], sides[1][op]) for op in _PAIRED_OPS}, (found.a.label, found.b.label), metrics
    )


def _check(
    objective: Objective, histograms: Histograms, layer: str, metric: str, waiting: Unfinished
) -> ObjectiveCheck:
    where: dict[str, object] = {"layer": layer}
    if objective.role is not None:
        where["role"] = objective.role
    merged = _sum([histograms.merged(op=op, **where) for op in objective.ops])
    quantile_ns = (
        histogram.quantile_ns(merged.bucket_ns, merged.io_count, objective.quantile) if merged.total else None
    )
    bounds = waiting.bounds(merged, objective.quantile, objective.ops, objective.role)
    sentence = verdict.check_sentence(objective, metric, quantile_ns, bounds, layer)
    is_met = bounds.is_within(objective.limit_ns)
    if is_met is False and bounds.at_least_ns is not None:
        quantile_ns = max(quantile_ns or 0, bounds.at_least_ns)
    return ObjectiveCheck(
        objective, metric, quantile_ns, merged.total, is_met, sentence, layer, bounds.unfinished_count
    )


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
