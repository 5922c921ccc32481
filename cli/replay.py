"""The replay command, and its answer: how hard and how exactly it was played, and what that did to the load."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from iotrace.analyze import validity
from iotrace.analyze.compare.fidelity import Fidelity, fidelity
from iotrace.analyze.describe.simulated import model_sections, model_sentences
from iotrace.analyze.present import (
    Answer,
    Bytes,
    Cell,
    Count,
    Duration,
    Number,
    ProgramAnswer,
    Rate,
    Ratio,
    Section,
    Sentence,
    Share,
    Table,
)
from iotrace.analyze.present.answer import columns, notes_section, section
from iotrace.analyze.present.program import INLINE
from iotrace.analyze.present.trust import disqualified, findings_section, has_invalid, trust
from iotrace.analyze.units import (
    DASH,
    format_bytes,
    format_count,
    format_duration_ns,
    format_moment,
    format_rate,
    format_ratio_with_interval,
    format_share,
)
from iotrace.analyze.validity import Finding
from iotrace.replay import parse_scale, replay
from iotrace.schemas import Manifest, Recording, counted
from iotrace.schemas.host import Host
from iotrace.schemas.run import Replay, Scaling
from iotrace.schemas.sweep import watched_path

from . import console
from .amounts import parse_loop, parse_seconds
from .live import live, show_replay
from .options import INTERRUPTED, Full, Json, OutputPath, Overwrite, RecordingPath, Title
from .play_options import HOW, RUN, GroupedCommand, PlayOptions, takes_play_options
from .show import show
from .summary import Written, clock_sentences, written
from .watching import note_watched, watched


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("replay", cls=GroupedCommand)(takes_play_options(replay_command))


@dataclass(frozen=True, kw_only=True)
class ReplayAnswer(ProgramAnswer):
    """What `replay` answers."""

    schema: Literal["iotrace.replay/1"] = "iotrace.replay/1"
    result: Annotated[Written, INLINE]
    findings: list[Finding]
    fidelity: Fidelity | None
    """Of a replay at 1x in step with what was recorded."""
    watched: Path | None
    """What a recorder saw of the target, where it watched."""


def replay_command(
    recording: RecordingPath,
    output: OutputPath,
    scale: Annotated[
        str,
        typer.Option(
            "--scale", metavar="Nx", help="How much harder to play: 2x, 1.5x, 0.25x.", rich_help_panel=HOW
        ),
    ] = "1x",
    play: PlayOptions = PlayOptions(),  # noqa: B008 - frozen; stands for its fields
    loop: Annotated[
        str | None,
        typer.Option(
            "--loop",
            metavar="N|TIME",
            help="Play it this many times, or again and again for this long: 3, 30m.",
            show_default=False,
            rich_help_panel=HOW,
        ),
    ] = None,
    ramp: Annotated[
        str | None,
        typer.Option(
            "--ramp",
            metavar="TIME",
            help="Raise the load from nothing over this long: 30s.",
            show_default=False,
            rich_help_panel=HOW,
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Also record the target's layers (needs root), as NAME.watched.iotrace, to compare the same layers.",
            rich_help_panel=RUN,
        ),
    ] = False,
    overwrite: Overwrite = False,
    title: Title = None,
    full: Full = False,
    json: Json = False,
) -> int:
    """Play a recording on a target, N times as hard.

    Exit status 1 if the run shows nothing about the storage, 130 if it was stopped.

    Example: iotrace replay prod.iotrace --target /data/test.bin --scale 2x -o new.iotrace
    """
    source = Recording.open(recording)
    repeat, loop_seconds = parse_loop(loop) if loop is not None else (1, None)
    options = play.build(
        source,
        scale=parse_scale(scale),
        repeat=repeat,
        loop_seconds=loop_seconds,
        ramp_seconds=0.0 if ramp is None else float(parse_seconds(ramp)),
        title=title,
    )
    seen_path = watched_path(output)
    beside = watched(options.all_targets, seen_path, overwrite=overwrite) if watch else nullcontext()
    with live("replay") as meter, beside:
        result = replay(
            source, output, options, overwrite=overwrite, progress=lambda state: show_replay(meter, state)
        )
    seen = note_watched(Recording.open(seen_path), result) if watch else None
    found = fidelity(source, result)
    findings = validity.check(result)
    if json:
        console.print_answer(
            ReplayAnswer(
                result=written(result), findings=findings, fidelity=found, watched=seen.path if seen else None
            )
        )
    else:
        last = f"wrote {result.path}: {written(result).bytes_on_disk / 1024:,.0f} KiB"
        show(replay_answer(result, output.name, found, findings, last), full=full)
        if seen is not None:
            console.say(f"what the recorder saw of the target: {seen.path}")
        if not result.manifest.was_interrupted and not has_invalid(findings):
            console.say(f"next: iotrace compare {shlex.join([str(recording), str(result.path)])}")
    if result.manifest.was_interrupted:
        return INTERRUPTED
    return 1 if has_invalid(findings) else 0


def replay_answer(
    result: Recording, name: str, found: Fidelity | None, findings: Sequence[Finding], written: str
) -> Answer:
    """The whole answer on ``result``, called ``name``; ``written`` says where it lies and how large it is."""
    manifest = result.manifest
    run = manifest.open_replay
    model = run.model
    # What a tested model expects is the answer; that another one answered is said by trust, and below.
    expected = model_sentences(model) if model is not None and model.predicted is not None else ()
    return Answer(
        opening=[
            *_stopped(manifest, run),
            *_on_credits(run),
            *disqualified({name: [one for one in findings if one.rule != "interrupted"]}),
            Sentence(_what(result, run), "answer"),
            Sentence(_played(run)),
            Sentence(_slow(run)),
            *(Sentence(words, "doubt") for words in expected),
            *trust(manifest.quality, findings),
            Sentence(written),
        ],
        sections=[
            Section("How exactly it was played", sentences=[Sentence(words) for words in _exactly(run)]),
            *_together(run),
            *(_fidelity(found, on_model=model is not None) if found is not None else []),
            *([_scaling(run.scaling, run)] if run.scaling else []),
            *([_places(run, manifest.host), *_pacing(run)] if model is None else model_sections(model)),
            *notes_section(
                [
                    *manifest.quality.shared_time,
                    *map(str, manifest.quality.part_recorded),
                    *clock_sentences(manifest),
                    *manifest.quality.notes,
                ]
            ),
            *findings_section(name, manifest.quality, findings),
        ],
    )


def _stopped(manifest: Manifest, run: Replay) -> Iterator[Sentence]:
    """What must not be concluded from a part of the load."""
    if not run.stopped_early:
        return
    share = format_share(run.issued_ios / max(run.planned_ios, 1))
    ended = manifest.quality.ended
    if manifest.was_interrupted and ended.startswith("interrupted"):
        of = f" of {format_duration_ns(run.planned_duration_ns)}" if run.mode != "think" else ""
        ended = f"stopped by you after {format_duration_ns(run.issued_span_ns)}{of}"
    yield Sentence(
        f"STOPPED EARLY: {share} of the load was played ({ended}); how the storage takes the rest is not known: do not "
        "hold this run against the whole recording",
        "bad",
    )


def _what(result: Recording, run: Replay) -> str:
    mode = str(run.mode)
    if mode == "superpose" and run.copies > 1:
        mode = f"superpose, {run.copies} copies, {run.footprint} footprint"
    when = format_moment(result.manifest.clock.start_utc_ns)
    what = f"with {run.backend}" if run.model is None else f"on the model '{run.model.title}'"
    return f"Played at {run.scale or 1.0:g}x ({mode}) {what}{f', {when}' if when else ''}"


def _played(run: Replay) -> str:
    """How much was played and how fast. Flushes are no load: rates, here as in `describe`, leave them out."""
    span = format_duration_ns(run.issued_span_ns)
    rate_per_s, bytes_per_s = _rates(run)
    rates = f"{format_rate(rate_per_s)}, {format_rate(bytes_per_s, 'B')}"
    if not _is_counted(run):
        issued = (
            f"Load: {format_count(run.issued_ios)} of {format_count(run.planned_ios)} I/Os issued in {span}"
        )
        return issued if rate_per_s is None else f"{issued}; reads and writes {rates}"
    flushes = run.planned_by_op.get("flush", 0)
    also = f" and {counted(flushes, 'flush', 'flushes')}" if flushes else ""
    return f"Load: {format_count(run.issued_ios - flushes)} reads and writes ({rates}){also} issued in {span}"


def _is_counted(run: Replay) -> bool:
    """Whether it is known how many I/Os of each operation were issued: as many as were planned."""
    return run.issued_ios == run.planned_ios == sum(run.planned_by_op.values())


def _rates(run: Replay) -> tuple[float | None, float | None]:
    """Reads and writes per second, and their bytes."""
    after = run.scaling.after if run.scaling is not None else None
    if after is None or not after.rate_per_s or not run.issued_span_ns:
        return None, None
    rate_per_s = after.rate_per_s
    if _is_counted(run):
        rate_per_s = (run.issued_ios - run.planned_by_op.get("flush", 0)) * 1e9 / run.issued_span_ns
    of_plan = rate_per_s / after.rate_per_s
    return rate_per_s, None if after.rate_bytes_per_s is None else of_plan * after.rate_bytes_per_s


def _on_credits(run: Replay) -> Iterator[Sentence]:
    """What a model carried, and would not for ever."""
    if run.model is not None and (spent := [one for one in run.model.limits if one.overspent]):
        waited = any(one.waited_ios for one in run.model.limits)
        carried = (
            "saved credits carried some of it, the rest waited" if waited else "only saved credits carried it"
        )
        rate_per_s, bytes_per_s = _rates(run)
        rate = format_rate(rate_per_s) if spent[0].counted == "iops" else format_rate(bytes_per_s, "B")
        yield Sentence(f"{rate} exceeds what the model sustains ({spent[0].name}): {carried}", "doubt")


def _slow(run: Replay) -> str:
    if run.model is not None and run.response_ns_p50 == 0:
        waits = sum(one.waited_ios for one in run.model.limits)
        if not waits:
            return "Latency: the model states none; no limit held an I/O back"
        mean_ns = sum(one.wait_ns_sum for one in run.model.limits) / waits
        return (
            f"Latency: the model states none; its limits held I/Os back {format_count(waits)} times, "
            f"for {format_duration_ns(mean_ns)} on average"
        )
    response, service = (format_duration_ns(one) for one in (run.response_ns_p50, run.service_ns_p50))
    return f"Latency: median response {response}, service {service}"


def _exactly(run: Replay) -> Iterator[str]:
    """What was planned, what of it was not played as planned, and how late it was."""
    planned, span = run.planned_duration_ns, run.issued_span_ns
    if run.mode == "think":
        recorded = format_duration_ns(run.scaling.before.span_ns if run.scaling else None)
        yield f"{format_duration_ns(span)} where {recorded} were recorded, and the storage decides"
    else:
        whole = planned and run.issued_ios == run.planned_ios
        off = f" (off by {format_share(abs(span - planned) / planned, 3)})" if whole else ""
        yield f"{format_duration_ns(span)} where {format_duration_ns(planned)} were planned{off}"
    counts = {
        "failed": run.failed_ios,
        f"left out ({', '.join(run.skipped)})": run.skipped_ios,
        "moved or resized to fit": run.adjusted_ios,
        "held back by cap or disk queue": run.delayed_ios,
        "without an end": run.issued_ios - run.completed_ios,
    }
    if said := ", ".join(f"{format_count(count)} {name}" for name, count in counts.items() if count):
        yield said
    latest = {"p50": run.lateness_ns_p50, "p99": run.lateness_ns_p99, "max": run.lateness_ns_max}
    late = (f"{name} {format_duration_ns(late_ns)}" for name, late_ns in latest.items())
    if run.model is None or run.lateness_ns_max:
        yield f"lateness {', '.join(late)}"
    thinning, dependencies = run.thinning, run.dependencies
    if thinning and thinning.achieved_share is not None:
        kinds = ", ".join(f"{count:,} {kind}s" for kind, count in thinning.streams_are.items())
        yield (
            f"a fraction of {thinning.asked_share:g} was asked of one copy; whole streams make "
            f"{thinning.achieved_share:.3g} of its I/Os ({format_share(thinning.error, signed=True)}) and "
            f"{thinning.achieved_share_of_bytes or 0:.3g} of its bytes: {thinning.streams_kept:,} of "
            f"{thinning.streams:,} streams ({kinds or 'none'})"
        )
    if dependencies:
        waiting, clocked = dependencies.waiting_ios, dependencies.clocked_ios
        yield (
            f"{format_share(waiting / max(1, waiting + clocked), 0)} of the I/Os waited for another on their thread or "
            f"log, {format_count(clocked)} kept to the clock"
        )


def _together(run: Replay) -> Iterator[Section]:
    """What each of several generators played, and how far apart they began."""
    if not run.shards:
        return
    rows: list[tuple[Cell, ...]] = [
        (
            shard.host,
            Count(shard.issued_ios),
            Count(shard.planned_ios),
            Duration(shard.start_skew_ns),
            Duration(shard.start_skew_error_ns),
            Duration(shard.start_skew_bound_ns),
            Duration(shard.lateness_ns_p99),
        )
        for shard in run.shards
    ]
    notes = [f"{shard.host}: {shard.said}" for shard in run.shards if shard.said]
    notes.append(
        "start: after the agreed instant, by exchanges of clocks; ± if the network takes as long there as back, within "
        "± at most in any case"
    )
    heads = columns("", "I/Os", "planned", "start", "±", "± at most", "lateness p99", text=1)
    yield Section("Who played what", Table(heads, rows), notes=notes)


def _pacing(run: Replay) -> Iterator[Section]:
    """How it waited between I/Os, what that took from the host, and what of the service is not the device's."""
    pacing = run.pacing
    if not pacing:
        return
    shares = {
        "the replay spun for": pacing.spun_share,
        "some thread waited for a processor for": pacing.others_waited_share,
        "the hypervisor took": pacing.stolen_share,
    }
    said = "; ".join(f"{name} {format_share(share)}" for name, share in shares.items() if share is not None)
    sentences = [Sentence(f"pacing {pacing.used} ({pacing.reason}); of the time, {said}")]
    if pacing.own_service_ns_mean is not None:
        own = (
            f"of a mean service {format_duration_ns(pacing.own_service_ns_mean)} is the replay's own share "
            "(handing over, waking up), by the device's own counters"
        )
        sentences.append(Sentence(own))
    yield Section("How it waited between I/Os", sentences=sentences, detail=True)


def _fidelity(found: Fidelity, *, on_model: bool) -> list[Section]:
    """Recorded against played on the same layer, with intervals, and what is known to be the replay's."""
    rows: list[tuple[Cell, ...]] = [
        (
            f"{one.layer} {one.op}",
            figure.quantity,
            Duration(figure.a_ns),
            Duration(figure.b_ns),
            Ratio(figure.ratio, figure.ratio_interval),
        )
        for one in found.layers
        for figure in one.figures
        if figure.ratio is not None
    ]
    if not rows:
        return []
    said = [
        f"{one.layer} {one.op}: a typical I/O took {format_ratio_with_interval(one.ratio, one.ratio_interval)} of its "
        f"recorded time ({format_count(one.pair_count)} of {format_count(one.recorded_count)} I/Os paired by {one.by})"
        for one in found.paired
    ] + list(found.unpaired)
    if on_model:
        said = ["played is what the model says; it takes nothing of its own"]
    elif not said:
        own = "the replay's own share is not known"
        if found.own_service_ns_mean is not None:
            own = f"{format_duration_ns(found.own_service_ns_mean)} of a mean I/O is the replay's own"
        said = [f"played is the service that the replay saw; {own}. --watch holds like against like"]
    heads = columns("", "", "recorded", "played", "played / recorded", text=2)
    return list(section("Recorded against played, 95 % interval of the ratio", heads, rows, notes=said))


_SHARE_MIN: Final = 0.01


def _scaling(scaling: Scaling, run: Replay) -> Section:
    """The load before and after scaling, and what it was multiplied by."""
    before, after = scaling.before, scaling.after

    def row(
        title: str, was: float | None, now: float | None, cell: Callable[[float | None], Cell] = _ratio
    ) -> tuple[Cell, ...]:
        # Two shares near zero are both chance, and so would their ratio be.
        is_chance = cell is Share and min(was or 0, now or 0) < _SHARE_MIN
        times = now / was if was and now is not None and not (is_chance or run.stopped_early) else None
        return title, cell(was), cell(now), Number(times, 2)

    shares = before.sequential_share, after.sequential_share
    rows = [
        row("I/Os, flushes too" if run.planned_by_op.get("flush") else "I/Os", before.ios, after.ios, Count),
        row("I/Os per second", before.rate_per_s, after.rate_per_s, Rate),
        row(
            "bytes per second", before.rate_bytes_per_s, after.rate_bytes_per_s, lambda rate: Rate(rate, "B")
        ),
        row("gaps CV", before.cv_interarrival, after.cv_interarrival),
        *(
            row(f"peak/mean {width}", was, after.peak_to_mean[width])
            for width, was in before.peak_to_mean.items()
        ),
        row("sequential", *shares, Share),
        row("touched", before.footprint_bytes, after.footprint_bytes, Bytes),
    ]
    notes = []
    if run.ramp_seconds and not run.stopped_early:
        notes.append(f"the first {run.ramp_seconds:g} s are a ramp, and left out of the table")
    if run.stopped_early:
        notes.append("as recorded: all that was to be played; as played: what was, before it stopped")
    elif run.mode == "compress" and run.scale not in {None, 1.0} and any(before.peak_to_mean.values()):
        lower = "lower" if (run.scale or 1.0) > 1 else "higher"
        notes.append(
            f"peak/mean is {lower} because 10 ms hold {run.scale:g}x as much of the recorded time; gaps CV shows "
            "whether the bursts kept their shape"
        )
    heads = columns("", "as recorded", "as played", "times")
    return Section("What scaling did to the load", Table(heads, rows), notes=notes)


def _ratio(value: float | None) -> Number:
    return Number(value, 2)


def _places(run: Replay, host: Host) -> Section:
    """How much of each target is used, beside what this machine could hold in memory."""
    rows: list[tuple[Cell, ...]] = [
        (
            target.name,
            target.addresses or DASH,
            Bytes(target.touched_bytes),
            Bytes(target.bytes),
            target.fill or "as it was",
        )
        for target in run.targets
    ]
    notes = []
    if host.memory_bytes and run.scaling:
        touched = run.scaling.after.footprint_bytes
        notes.append(
            f"{format_bytes(touched)} touched; this machine has {format_bytes(host.memory_bytes)} of memory, "
            "and an array's cache may hold some too"
        )
    heads = columns("target", "addresses", "spanned", "size", "filled", text=2)
    return Section("Where it lies", Table(heads, rows, shown=8), notes=notes)
