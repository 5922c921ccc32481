"""Binary counter logs of Windows (.blg): counters cooked as Performance Monitor shows them.

Logs of Windows Vista and Server 2008 or later. Times are those of the samples: local wall time in the file, brought to
UTC by the 100-ns clock inside the sample where there is one, else by the time zone in the log's header and its rule for
daylight saving.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from iotrace.capture.counters.samples import Cooker, Sample
from iotrace.capture.counters.series import Integers, Series, median_of_counts, utc_text
from iotrace.capture.formats.format import (
    HEAD_BYTES,
    SYSTEM_TICK_NS,
    Format,
    Outcome,
    Progress,
    naming,
    unreported,
)
from iotrace.schemas import Clock, IotraceError, Quality, counted
from iotrace.schemas.host import Host
from iotrace.schemas.units import FILETIME_1970

from .blg_container import (
    CATALOG,
    NAMES,
    SAMPLE,
    LogHeader,
    has_counters,
    looks_like_container,
    open_log,
    read_header,
)
from .blg_objects import RawValues
from .blg_records import SampleReader, read_catalog, read_names

_BATCH_VALUES: Final = 1 << 18
_MODE_CIRCULAR: Final = 0x2
_QUARTER_HOUR_100NS: Final = 15 * 60 * 10**7
_LOCAL_MAX: Final = 1 << 58  # the year 2514: later ones are damage, and would not fit nanoseconds since 1970
_BIBTEX: Final = (b"This is BibTeX", b"This is pBibTeX", b"This is upBibTeX", b"This is 8-bit")
_BIBER: Final = b"INFO - This is Biber"
_NT4: Final = "PDH-BIN".encode("utf-16-le"), b"PDH-BIN"


def recognises(head: bytes, _path: Path) -> bool:
    """Whether ``head`` begins a counter log, or one of the other files that go by this name (`read` names them)."""
    if _other_kind(head) is not None:
        return True
    return looks_like_container(head) and has_counters(head)


def _other_kind(head: bytes) -> tuple[str, str] | None:
    if head.startswith(_BIBTEX) or _BIBER in head[:200]:
        return (
            "is a log written by BibTeX, which also uses the suffix .blg",
            "import the counter log that perfmon wrote",
        )
    if any(word in head[:64] for word in _NT4):
        return (
            "is a counter log of Windows NT 4 or 2000, whose format is not read",
            "convert it with relog FILE -f csv -o FILE.csv",
        )
    return None


def read(path: Path, name: str, progress: Progress) -> "BlgTrace":
    """Open the log at ``path``. Memory is bounded by the number of series, not by the number of samples."""
    return BlgTrace(path, name, progress, _header(path, name))


def inspect(path: Path, name: str) -> dict[str, Any]:
    """Counters, samples, time and losses of a log: the whole file is read, nothing is kept.

    Keys: kind, os, machines, objects (name → series), series, samples, values, first_utc, last_utc (ISO 8601, null
    without samples), interval_s (median), time_zone_bias_minutes, whole, notes, and the counts of `Quality`.
    Raises `IotraceError`.
    """
    trace = read(path, name, unreported)
    value_count = sum(batch.num_rows for _, batch in trace.batches())
    outcome = trace.outcome()
    series = trace.series
    objects: dict[str, int] = {}
    for object_name in series.objects:
        objects[object_name] = objects.get(object_name, 0) + 1
    quality = outcome.quality
    return {
        "kind": "binary counter log of Windows",
        "os": trace.host.system,
        "machines": sorted(set(series.sources)),
        "objects": objects,
        "series": len(series),
        "samples": trace.samples,
        "values": value_count,
        "first_utc": trace.utc_text(outcome.window_start_ns),
        "last_utc": trace.utc_text(outcome.window_end_ns),
        "interval_s": trace.median_interval_s(),
        "time_zone_bias_minutes": trace.host.utc_bias_minutes,
        "whole": not (quality.truncated_tail or quality.damaged_buffers or quality.sequence_holes),
        "events_lost": quality.events_lost,
        "buffers_lost": quality.buffers_lost,
        "damaged_buffers": quality.damaged_buffers,
        "sequence_holes": quality.sequence_holes,
        "notes": quality.notes,
    }


FORMAT: Final = Format("blg", recognises, read, inspect, has_ios=False)


def _header(path: Path, name: str) -> LogHeader:
    with naming(name), path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if other := _other_kind(head):
        raise IotraceError(f"'{name}' {other[0]}", hint=other[1])
    header = read_header(head) if looks_like_container(head) else None
    if header is None:
        raise IotraceError(f"'{name}' has a damaged log header", hint="copy the file again, or record again")
    return header


class BlgTrace:
    """See `iotrace.capture.formats.format.Trace`."""

    def __init__(self, path: Path, name: str, progress: Progress, header: LogHeader) -> None:
        self._path, self._name, self._progress, self._header = path, name, progress, header
        self.series = Series(name)
        self.samples = 0
        self._reader = SampleReader(self.series, name)
        self._intervals_ns: dict[int, int] = {}
        self._cooker = Cooker(self.series)
        self._last_sample_ns: int | None = None
        self._last_ns = 0
        self._first_ns: int | None = None
        self._clock_steps = 0
        self._catalogs = 0
        self._has_clock = False
        start_ns = self._first_sample_utc_ns()
        self.clock = Clock(start_ns, 1e6, "Windows counter log", SYSTEM_TICK_NS)
        major, minor, build = header.os_version
        self.host = Host(
            system=f"Windows {major}.{minor} build {build}", utc_bias_minutes=header.zone.bias_minutes
        )

    def _first_sample_utc_ns(self) -> int:
        for at_utc_ns, _ in self._samples(unreported):
            if at_utc_ns is not None:
                break
        else:
            at_utc_ns = (self._header.start_filetime - FILETIME_1970) * 100
            at_utc_ns = at_utc_ns if 0 < at_utc_ns < 1 << 62 else 0
        # Only a look ahead: everything is read again when rows are asked for.
        self.series = Series(self._name)
        self._cooker = Cooker(self.series)
        self._reader = SampleReader(self.series, self._name)
        self._has_clock = False
        return at_utc_ns or 0

    def _samples(self, progress: Progress) -> Iterator[tuple[int | None, RawValues]]:
        """Every sample's time in UTC, None where it makes no sense, and raw values."""
        with naming(self._name):
            file, container = open_log(self._path, self._header.buffer_bytes)
            self._container = container
            with file:
                for kind, local, data in container.records(self._name, progress):
                    if kind == CATALOG:
                        entries = read_catalog(data)
                        self._catalogs += 1
                        self._reader.use_catalog(entries)
                    elif kind == NAMES:
                        self._reader.use_names(*read_names(data))
                    elif kind == SAMPLE:
                        raw = self._reader.read(data, local)
                        if raw is not None:
                            yield self._utc_ns(local, raw.utc_100ns), raw

    def _utc_ns(self, local: int, utc_100ns: int | None) -> int | None:
        if not FILETIME_1970 < local < _LOCAL_MAX:
            return None
        utc = local
        if utc_100ns is not None and abs(utc_100ns - local) < 16 * 4 * _QUARTER_HOUR_100NS:
            # Zones differ by quarter hours; the rest of the difference is the rounding of the sample's time.
            utc += round((utc_100ns - local) / _QUARTER_HOUR_100NS) * _QUARTER_HOUR_100NS
            self._has_clock = True
        else:
            utc += self._header.zone.bias_at(local) * 60 * 10**7
        # Times are rounded to milliseconds, but the first can be some 100 ns below.
        return (utc - FILETIME_1970 + 5_000) // 10_000 * 1_000_000

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Rows in the order of the samples."""
        pending: list[Sample] = []
        times: list[int] = []
        size = 0
        for utc_ns, raw in self._samples(self._progress):
            if utc_ns is None:
                self._clock_steps += 1
                continue
            self.samples += 1
            if not raw.numbers:
                continue
            at_ns = utc_ns - self.clock.start_utc_ns
            parts = [
                np.concatenate(part) for part in (raw.numbers, raw.rules, raw.first, raw.second, raw.hertz)
            ]
            pending.append(Sample(np.full(len(parts[0]), at_ns, np.int64), *parts))
            times.append(at_ns)
            size += len(parts[0])
            if size >= _BATCH_VALUES:
                yield "counters", self._rows(pending, times)
                pending, times, size = [], [], 0
        if pending:
            yield "counters", self._rows(pending, times)

    def _rows(self, samples: list[Sample], times: list[int]) -> pa.RecordBatch:
        last_ns = self._last_sample_ns
        self._last_sample_ns = times[-1]
        before = [] if last_ns is None else [last_ns]
        self._watch(np.array(before + times, np.int64), is_first=last_ns is None)
        return self._cooker.rows(samples)

    def _watch(self, times: Integers, *, is_first: bool) -> None:
        if is_first:
            self._first_ns = int(times[0])
            self._last_ns = int(times[0])
        steps = np.diff(times)
        self._clock_steps += int(np.count_nonzero(steps <= 0))
        self._first_ns = min(self._first_ns or 0, int(times.min()))
        self._last_ns = max(self._last_ns, int(times.max()))
        lengths, counts = np.unique(np.round(steps, -6), return_counts=True)
        for length, count in zip(lengths.tolist(), counts.tolist(), strict=True):
            if len(self._intervals_ns) < 100_000 or length in self._intervals_ns:
                self._intervals_ns[length] = self._intervals_ns.get(length, 0) + count

    def median_interval_s(self) -> float | None:
        """Median time between samples."""
        median_ns = median_of_counts(self._intervals_ns)
        return None if median_ns is None else median_ns / 1e9

    def utc_text(self, at_ns: int) -> str | None:
        """A time of the recording as ISO 8601 in UTC; None for a log without samples."""
        if not self.samples:
            return None
        return utc_text(self.clock.start_utc_ns + at_ns)

    def outcome(self) -> Outcome:
        """The window runs from the first sample to the last."""
        counts = self._container.counts
        start_ns = self._first_ns or 0
        return Outcome(
            start_ns,
            max(self._last_ns, start_ns),
            Quality(
                events_lost=self._header.events_lost,
                buffers_lost=self._header.buffers_lost,
                sequence_holes=counts.sequence_holes,
                damaged_buffers=counts.damaged_buffers,
                clock_steps=self._clock_steps,
                truncated_tail=counts.truncated or self._lacks_buffers(),
                notes=list(self._notes()),
            ),
            counts.events,
        )

    def _lacks_buffers(self) -> bool:
        """Whether the header counts more buffers than the file has; a circular log overwrites its own."""
        is_circular = bool(self._header.mode & _MODE_CIRCULAR)
        return not is_circular and self._container.counts.buffers < self._header.buffers_written

    def _notes(self) -> Iterator[str]:
        counts, records = self._container.counts, self._reader.counts
        if not self.samples:
            why = "" if self._catalogs else ": its catalog of counters is missing"
            yield f"this counter log holds no sample that can be read{why}"
        if not self._header.end_filetime:
            yield "the log was not closed: it may lack its last samples"
        if counts.wrapped:
            yield "the log is circular: only the end of its session is left"
        if self.samples and not self._has_clock:
            yield "UTC is taken from the time zone in the log's header, whose daylight saving rule is that of one year"
        if self.series.has_untranslated():
            yield "some counters keep their localized names and have no metric"
        for count, noun, words in (
            (counts.broken_records, "record", "left out: parts are missing"),
            (records.damaged_samples, "damaged sample", "read up to the damage"),
            (records.invalid_values, "value", "left out that Windows marked invalid"),
        ):
            if count:
                yield f"{counted(count, noun)} {words}"
        yield from self._cooker.notes(records.unknown_types)
