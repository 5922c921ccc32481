"""The demo: the whole story on a recording that comes with iotrace, in a minute or two."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from iotrace.analyze import validity
from iotrace.analyze.compare.comparison import Comparison
from iotrace.analyze.compare.presentation import headline_sections
from iotrace.analyze.compare.recordings import compare
from iotrace.analyze.describe.presentation import description_sections
from iotrace.analyze.describe.recording import describe
from iotrace.analyze.knee.next_load import StepSummary
from iotrace.analyze.knee.presentation import knee_answer, knee_sections
from iotrace.analyze.knee.series import knee_of_sweep
from iotrace.analyze.present import ProgramAnswer, Sentence
from iotrace.analyze.present.program import INLINE
from iotrace.analyze.present.trust import disqualified, has_invalid
from iotrace.analyze.report import ReportFacts, write_report
from iotrace.analyze.validity import Finding
from iotrace.analyze.validity.sweep import check_sweep
from iotrace.replay import DirectIoRefusedError, Progress, ReplayOptions
from iotrace.schemas import IotraceError, Recording, RecordingWriter, Sweep
from iotrace.schemas.models import model_words
from iotrace.schemas.replacing import check_file

from . import console
from .live import live, show_replay
from .options import Json, finite
from .show import say, show_section
from .sweep import point_of
from .sweep_run import run_sweep, was_interrupted

WINDOW_NS: Final = (50_000_000_000, 70_000_000_000)
"""A checkpoint and a stretch with more lookups; the scan at 110 s, a few times as fast, would be gigabytes a second."""
STEP_SECONDS: Final = 4.0
STEPS_MAX: Final = 8
SLO: Final = "p99<15ms"
MODELLED: Final = "azure/P10"
"""500 IOPS, bursts to 3,500: the recording at a few times its load is more than that."""
MODELLED_SCALES: Final = (1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0)
REPORT_NAME: Final = "iotrace-demo-report.html"


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("demo")(demo_command)


def demo_command(
    folder: Annotated[
        Path, typer.Option("--folder", help="Folder for the test file and the report.", show_default="here")
    ] = Path(),
    keep: Annotated[bool, typer.Option("--keep", help="Keep the recordings of the demo.")] = False,
    step_seconds: Annotated[
        float,
        typer.Option(
            "--step-seconds",
            min=0.5,
            max=3600,
            callback=finite,
            help="Shortest length of a step of the sweep.",
        ),
    ] = STEP_SECONDS,
    recording_name: Annotated[
        Path | None,
        typer.Option("--recording", help="Copy the bundled recording to this name, NAME.iotrace, and stop."),
    ] = None,
    json: Json = False,
) -> None:
    """Show the whole story on a bundled recording.

    It runs describe, sweep, knee, compare and report, in a minute or two.

    Example: iotrace demo
    """
    if recording_name is not None:
        _copy_recording(recording_name)
        return
    with bundled_recording() as recording, _workshop(folder, keep=keep) as place:
        report = place.output / REPORT_NAME
        check_file(report, overwrite=True)  # before the minute, not after
        _announce(recording, place, report, keep=keep)
        story = _Story(recording, place, step_seconds, quiet=json)
        story.tell()
        facts = write_report([story.sweep, recording], report, slo=SLO, title="iotrace demo", overwrite=True)
        if json:
            console.print_answer(DemoAnswer(is_valid=not has_invalid(story.findings), facts=facts))
            return
        story.tell_of_a_model()
        console.heading("Verdict")
        console.paragraph(facts.verdict)
        console.paragraph(f"The whole story in pictures: {report} (open it in a browser)")


@contextmanager
def bundled_recording() -> Iterator[Recording]:
    """The recording that comes with iotrace: PostgreSQL under pgbench; see its README."""
    with resources.as_file(resources.files("iotrace.cli.bundled") / "pgbench.iotrace") as path:
        yield Recording.open(path)


def _copy_recording(path: Path) -> None:
    with bundled_recording() as recording, RecordingWriter(path) as writer:
        for name in recording.table_names():
            writer.append(name, recording.read(name))
        writer.commit(recording.manifest)
    console.say(f"wrote {path}: {recording.manifest.title}")


@dataclass(frozen=True, kw_only=True)
class DemoAnswer(ProgramAnswer):
    """What `demo` answers: its report."""

    schema: Literal["iotrace.demo/1"] = "iotrace.demo/1"
    is_valid: bool
    facts: Annotated[ReportFacts, INLINE]


@dataclass(frozen=True)
class _Place:
    """``work`` holds what is thrown away, ``output`` what stays."""

    work: Path
    output: Path


@contextmanager
def _workshop(folder: Path, *, keep: bool) -> Iterator[_Place]:
    """A folder for the test file and recordings, gone afterwards whatever happens."""
    if not folder.is_dir():
        raise IotraceError(f"'{folder}' is not a folder", hint="name one that exists with --folder")
    try:
        work = Path(tempfile.mkdtemp(prefix="iotrace-demo-", dir=folder))
        output = folder
    except OSError as problem:
        if folder != Path():
            raise IotraceError(
                f"cannot write in '{folder}': {problem.strerror}", hint="name another with --folder"
            ) from problem
        console.warn(f"cannot write here ({problem.strerror}); using {tempfile.gettempdir()} instead")
        work = Path(tempfile.mkdtemp(prefix="iotrace-demo-"))
        output = Path(tempfile.gettempdir())
    try:
        yield _Place(work, output)
    finally:
        if keep:
            (work / "target.bin").unlink(missing_ok=True)
            console.say(f"kept the recordings in {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)


def _announce(recording: Recording, place: _Place, report: Path, *, keep: bool) -> None:
    seconds = (WINDOW_NS[1] - WINDOW_NS[0]) // 1_000_000_000
    console.say(f"This replays {seconds} s of the bundled recording on a test file, harder and harder:")
    console.say(f"  {recording.manifest.title}")
    console.say(
        f"It works in {place.work}, which it {'keeps' if keep else 'removes at the end'}, and leaves {report}."
    )
    console.words.print()


class _Story:
    """The demo's steps in order, each shown as it is done."""

    def __init__(self, recording: Recording, place: _Place, step_seconds: float, *, quiet: bool) -> None:
        self._recording, self._place, self._step_seconds, self._quiet = recording, place, step_seconds, quiet
        self.sweep: Sweep
        self.findings: list[Finding]

    def tell(self) -> None:
        """Describe, sweep, knee, compare."""
        with console.working("describing the recording"):
            description = describe(self._recording)
        if not self._quiet:
            for section in description_sections(description)[:2]:
                show_section(section)
        self.sweep = self._walk_up()
        if was_interrupted(self.sweep):
            raise KeyboardInterrupt  # a story of half a step is none
        steps = self.sweep.recordings()
        with console.working("finding the knee"):
            found = knee_of_sweep(self.sweep, slo=SLO)
            first = steps[[step.scale for step in self.sweep.steps].index(1.0)]
            comparison = compare(self._recording, first)
            self.findings = check_sweep(steps)
            compared = validity.check(first, comparison=comparison)
        if self._quiet:
            return
        console.heading("Knee")
        for sentence in knee_answer(found, "the sweep", steps, self.findings).opening:
            say(sentence)
        for cause in found.causes:
            say(Sentence(cause.sentence))
        show_section(knee_sections(found)[0])
        self._show(comparison, disqualified({"1x": compared}))

    def _show(self, comparison: Comparison, spoiled: list[Sentence]) -> None:
        """The replay at 1x against the recording; the rest is in the report."""
        console.heading("The recording (A) against its replay at 1x (B)")
        for sentence in spoiled:
            say(sentence)
        for section in headline_sections(comparison) if not spoiled else ():
            show_section(section)

    def tell_of_a_model(self) -> None:
        """The same part of the recording on a cloud disk of the catalogue, in virtual time: its knee is certain."""
        options = ReplayOptions(targets=(f"model:{MODELLED}",), window_ns=WINDOW_NS)
        console.heading(f"The same on {MODELLED}, which nobody has bought: a model, in virtual time")
        with console.working("replaying on a model"):
            sweep = run_sweep(
                self._recording,
                self._place.work / "model.iotrace",
                options,
                scales=MODELLED_SCALES,
                step_seconds=self._step_seconds,
                title=f"iotrace demo on {MODELLED}",
            )
            steps = sweep.recordings()
            found = knee_of_sweep(sweep, slo=SLO)
        console.paragraph(found.sentence)
        for one in found.objectives:
            console.paragraph(one.sentence)
        console.paragraph(f"All of this is {model_words(steps)}.")

    def _walk_up(self) -> Sweep:
        options = ReplayOptions(targets=(str(self._place.work / "target.bin"),), window_ns=WINDOW_NS)
        try:
            return self._sweep(options)
        except DirectIoRefusedError as refusal:
            console.warn(f"{refusal.message}; going through the cache, which measures memory and not storage")
            return self._sweep(replace(options, buffered=True), overwrite=True)

    def _sweep(self, options: ReplayOptions, *, overwrite: bool = False) -> Sweep:
        with live("sweep") as meter:

            def start(
                number: int, scale: float, _seconds: float, _said: object
            ) -> Callable[[Progress], None]:
                return lambda state: show_replay(meter, state, f"step {number} at {scale:g}x: ")

            def done(step: StepSummary, _recording: Recording) -> None:
                meter.point(replace(point_of(step), remark=""))

            return run_sweep(
                self._recording,
                self._place.work / "sweep.iotrace",
                options,
                step_seconds=self._step_seconds,
                steps_max=STEPS_MAX,
                resolution=0.15,
                title="iotrace demo",
                overwrite=overwrite,
                on_start=start,
                on_done=done,
            )
