"""How the columns of an array's performance export are read: a TOML file, checked."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from iotrace.capture.formats.format import naming
from iotrace.schemas import IotraceError, Layer
from iotrace.schemas.plain_files import read_plain
from iotrace.schemas.sections import toml_data

TIMES_NS: Final = {"s": 1e9, "ms": 1e6, "us": 1e3, "100ns": 100.0, "ns": 1.0}
RATES: Final = {"B/s": 1.0, "KB/s": 1e3, "KiB/s": 1024.0, "MB/s": 1e6, "MiB/s": 1024.0**2, "GB/s": 1e9}
_COUNTS: Final = {"1/s": 1.0, "1": 1.0, "%": 1.0}
DELIMITERS: Final = ",;|:\t ^~"
_BYTES_MAX: Final = 1 << 20
_HINT: Final = "docs/formats.md describes one"
LAYERS: Final = ("array", *map(str, Layer))
ASK: Final = "ask"
"""The zone of a mapping whose times are local, in a zone that the export does not tell."""

UNITS: Final = TIMES_NS | RATES | _COUNTS


@dataclass(frozen=True, slots=True)
class Metric:
    """What a column means: the common name, and what one of its units is in the name's own unit."""

    metric: str
    unit: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Mapping:
    """How the columns of one vendor's export are read."""

    name: str
    object: str
    delimiter: str
    time_column: str
    time_format: str
    time_unit: str
    zone: str | None
    """None where times need none; `ASK` where only the user knows it."""
    instance_column: str | None
    metrics: dict[str, Metric] = field(default_factory=dict)
    layer: str = "array"
    """Which layer's figures they are."""

    def fits(self, header: list[str]) -> bool:
        """Whether a CSV with these columns is one this mapping is for."""
        needed = {column for column, metric in self.metrics.items() if not metric.optional}
        needed |= {self.time_column} | ({self.instance_column} if self.instance_column else set())
        return needed <= set(header)


def read_mapping(path: Path) -> Mapping:
    """The mapping at ``path``. Raises `IotraceError` naming it as `load_mapping` does."""
    return load_mapping(mapping_text(path), str(path))


def mapping_text(path: Path) -> str:
    """The text of a mapping. Raises `IotraceError` naming it."""
    with naming(str(path)):
        data = read_plain(path, _BYTES_MAX)
    if len(data) > _BYTES_MAX:
        raise IotraceError(f"'{path}' is not a column mapping: it is over 1 MiB", hint=_HINT)
    return data.decode("utf-8-sig", "replace")


def load_mapping(text: str, name: str) -> Mapping:
    """Parse a mapping. Raises `IotraceError` naming it by ``name``, and the entry that is wrong."""

    def wrong(what: str) -> IotraceError:
        return IotraceError(f"'{name}' is not a column mapping: {what}", hint=_HINT)

    try:
        data = toml_data(text)
        time = data["time"]
        metrics = {
            column: Metric(str(entry["metric"]), str(entry["unit"]), bool(entry.get("optional", False)))
            for column, entry in data["metrics"].items()
        }
        mapping = Mapping(
            str(data.get("name", "array")),
            str(data.get("object", "array volume")),
            str(data.get("delimiter", ",")),
            str(time["column"]),
            str(time.get("format", "iso")),
            str(time.get("unit", "s")),
            str(time["zone"]) if "zone" in time else None,
            str(data["instance"]["column"]) if "instance" in data else None,
            metrics,
            str(data.get("layer", "array")),
        )
    except ValueError as problem:
        raise wrong(str(problem)) from problem
    except RecursionError as problem:
        raise wrong("its values are nested too deeply") from problem
    except (KeyError, TypeError, AttributeError) as problem:
        raise wrong(f"{problem} is missing or of the wrong kind") from problem
    for what in _faults(mapping):
        raise wrong(what)
    return mapping


def _faults(mapping: Mapping) -> Iterator[str]:
    if not mapping.metrics:
        yield "it names no metrics"
    if len(mapping.delimiter) != 1 or mapping.delimiter not in DELIMITERS:
        yield "the delimiter is none of , ; | : ^ ~, a space or a tab"
    for column, metric in mapping.metrics.items():
        if metric.unit not in UNITS:
            yield f"{column} has the unit {metric.unit}, not one of {', '.join(UNITS)}"
        if metric.metric.endswith("_ns") != (metric.unit in TIMES_NS):
            yield f"{column} is {metric.metric} in {metric.unit}: a metric in _ns needs a unit of time"
    if mapping.time_format == "epoch" and mapping.time_unit not in TIMES_NS:
        yield f"the time's unit {mapping.time_unit} is not one of {', '.join(TIMES_NS)}"
    if mapping.layer not in LAYERS:
        yield f"the layer {mapping.layer} is not one of {', '.join(LAYERS)}"
    yield from _faults_of_zone(mapping)


def _faults_of_zone(mapping: Mapping) -> Iterator[str]:
    if mapping.time_format != "epoch" and mapping.zone is None:
        yield "a local time needs a zone, e.g. zone = 'Europe/Berlin' or 'UTC'"
    if mapping.zone not in {None, ASK}:
        try:
            ZoneInfo(str(mapping.zone))
        except (OSError, ValueError, KeyError):
            yield f"no time zone {mapping.zone}"


@cache
def ready_mappings() -> tuple[Mapping, ...]:
    """The mappings that come with iotrace."""
    return tuple(mapping for _, mapping in _shipped())


@cache
def _shipped() -> tuple[tuple[str, Mapping], ...]:
    folder = resources.files(__package__).joinpath("maps")
    if not folder.is_dir():
        return ()
    files = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".toml")), key=lambda entry: entry.name
    )
    return tuple(
        (entry.name.removesuffix(".toml"), load_mapping(entry.read_text("utf-8"), entry.name))
        for entry in files
    )


def shipped_names() -> list[str]:
    """Names of the mappings that come with iotrace, as ``--map`` takes them: whole, or a vendor's alone."""
    return [name.replace("_", "-") for name, _ in _shipped()]


def shipped(word: str) -> tuple[Mapping, ...]:
    """The mappings that come with iotrace under this name, or of this vendor."""
    wanted = word.lower().replace("_", "-")
    return tuple(
        mapping
        for name, (_, mapping) in zip(shipped_names(), _shipped(), strict=True)
        if name == wanted or name.startswith(f"{wanted}-")
    )
