"""What performance counters are called across sources: unit, layer and common metric of each known one.

The one place where common metric names are defined (`METRICS`). A row of ``counters`` that carries a metric has its
value in that metric's unit: the counter ``Avg. Disk sec/Read`` is stored in nanoseconds, since its metric is
``read_latency_ns``. A row without one keeps the value that the source shows.

What a counter means is described in the documentation of Windows Server ("PhysicalDisk object", "LogicalDisk object")
and of SQL Server ("Buffer Manager object", "Databases object", "Resource Pool Stats object").

Names of the disk counters on localized Windows, as far as they were seen in scripts that ran on such machines.

Windows translates names of objects and counters, not of hosts and instances. What is not in these tables is left as it
is, without a metric: a wrong meaning would be worse than none. Releases differ in apostrophes, so those are folded.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

# ruff: noqa: RUF001 - names in other alphabets
from typing import Final

_OBJECTS: Final[dict[str, str]] = {
    "physikalischer datenträger": "PhysicalDisk", "logischer datenträger": "LogicalDisk",
    "disque physique": "PhysicalDisk", "disque logique": "LogicalDisk",
    "disco físico": "PhysicalDisk", "disco lógico": "LogicalDisk",
    "disco fisico": "PhysicalDisk", "disco logico": "LogicalDisk",
    "физический диск": "PhysicalDisk", "логический диск": "LogicalDisk",
}  # fmt: skip

_COUNTERS: Final[dict[str, str]] = {
    # German, whole: as the index of counter names of a German Windows has them
    "zeit (%)": "% Disk Time",
    "lesezeit (%)": "% Disk Read Time",
    "schreibzeit (%)": "% Disk Write Time",
    "mittlere sek./übertragung": "Avg. Disk sec/Transfer",
    "bytes/s": "Disk Bytes/sec",
    "mittlere bytes/übertragung": "Avg. Disk Bytes/Transfer",
    "mittlere bytes/lesevorgang": "Avg. Disk Bytes/Read",
    "mittlere bytes/schreibvorgang": "Avg. Disk Bytes/Write",
    "durchschnittl. warteschlangenlänge des datenträgers": "Avg. Disk Queue Length",
    "leerlaufzeit (%)": "% Idle Time",
    "teil-e/a/s": "Split IO/Sec",
    "mittlere sek./lesevorgänge": "Avg. Disk sec/Read",
    "mittlere sek./schreibvorgänge": "Avg. Disk sec/Write",
    "lesevorgänge/s": "Disk Reads/sec",
    "schreibvorgänge/s": "Disk Writes/sec",
    "übertragungen/s": "Disk Transfers/sec",
    "bytes gelesen/s": "Disk Read Bytes/sec",
    "bytes geschrieben/s": "Disk Write Bytes/sec",
    "aktuelle warteschlangenlänge": "Current Disk Queue Length",
    "durchschnittl. warteschlangenlänge der datenträger-lesevorgänge": "Avg. Disk Read Queue Length",
    "durchschnittl. warteschlangenlänge der datenträger-schreibvorgänge": "Avg. Disk Write Queue Length",
    # French
    "moyenne disque s/lecture": "Avg. Disk sec/Read",
    "moyenne disque s/écriture": "Avg. Disk sec/Write",
    "moyenne disque s/transfert": "Avg. Disk sec/Transfer",
    "lectures disque/s": "Disk Reads/sec",
    "écritures disque/s": "Disk Writes/sec",
    "transferts disque/s": "Disk Transfers/sec",
    "octets disque/s": "Disk Bytes/sec",
    "lectures disque, octets/s": "Disk Read Bytes/sec",
    "écritures disque, octets/s": "Disk Write Bytes/sec",
    "moyenne disque, octets/lecture": "Avg. Disk Bytes/Read",
    "moyenne disque, octets/écriture": "Avg. Disk Bytes/Write",
    "moyenne disque, octets/transfert": "Avg. Disk Bytes/Transfer",
    "longueur moyenne de file d'attente du disque": "Avg. Disk Queue Length",
    "longueur moyenne de file d'attente lecture disque": "Avg. Disk Read Queue Length",
    "longueur moyenne de file d'attente écriture disque": "Avg. Disk Write Queue Length",
    "taille de file d'attente du disque actuelle": "Current Disk Queue Length",
    "pourcentage du temps disque": "% Disk Time",
    "pourcentage du temps de lecture du disque": "% Disk Read Time",
    "pourcentage du temps écriture du disque": "% Disk Write Time",
    "% d'inactivité": "% Idle Time",
    # Spanish
    "promedio de segundos de disco/lectura": "Avg. Disk sec/Read",
    "promedio de segundos de disco/escritura": "Avg. Disk sec/Write",
    "transferencias de disco/s": "Disk Transfers/sec",
    "bytes de lectura de disco/s": "Disk Read Bytes/sec",
    "bytes de escritura en disco/s": "Disk Write Bytes/sec",
    # Italian
    "byte letti da disco/sec": "Disk Read Bytes/sec",
    "byte scritti su disco/sec": "Disk Write Bytes/sec",
    "trasferimenti disco/sec": "Disk Transfers/sec",
    # Portuguese
    "bytes escritos em disco/seg": "Disk Write Bytes/sec",
    "bytes de gravação de disco/s": "Disk Write Bytes/sec",
    # Russian
    "среднее время чтения с диска (с)": "Avg. Disk sec/Read",
    "среднее время записи на диск (с)": "Avg. Disk sec/Write",
    "средняя длина очереди диска": "Avg. Disk Queue Length",
    "текущая длина очереди диска": "Current Disk Queue Length",
    "скорость чтения с диска (байт/с)": "Disk Read Bytes/sec",
    "скорость записи на диск (байт/с)": "Disk Write Bytes/sec",
    "обращений записи на диск/с": "Disk Writes/sec",
    "обращений чтения с диска/с": "Disk Reads/sec",
    "обращений к диску/с": "Disk Transfers/sec",
    "среднее время обращения к диску (с)": "Avg. Disk sec/Transfer",
    "средний размер одного обмена с диском (байт)": "Avg. Disk Bytes/Transfer",
    "% активности диска": "% Disk Time",
    "% активности диска при чтении": "% Disk Read Time",
    "% активности диска при записи": "% Disk Write Time",
    "процент времени бездействия": "% Idle Time",
}


def english(object_name: str, counter: str) -> tuple[str, str]:
    """Both names in English where they are a known translation of a disk counter, else as they are."""
    english_object = _OBJECTS.get(_fold(object_name), object_name)
    if english_object.lower() not in {"physicaldisk", "logicaldisk"}:
        return object_name, counter
    return english_object, _COUNTERS.get(_fold(counter), counter)


def is_known_object(object_name: str) -> bool:
    """Whether ``object_name`` is a known translation of a disk object."""
    return _fold(object_name) in _OBJECTS


def _fold(name: str) -> str:
    return name.strip().lower().replace("’", "'")


METRICS: Final[dict[str, tuple[str, str]]] = {
    "read_latency_ns": ("ns", "mean time of the reads that ended in the interval"),
    "write_latency_ns": ("ns", "mean time of the writes that ended in the interval"),
    "latency_ns": ("ns", "mean time of the reads and writes that ended in the interval"),
    "read_iops": ("1/s", "reads completed per second"),
    "write_iops": ("1/s", "writes completed per second"),
    "iops": ("1/s", "reads and writes completed per second"),
    "read_bytes_per_second": ("bytes/s", "bytes read per second"),
    "write_bytes_per_second": ("bytes/s", "bytes written per second"),
    "bytes_per_second": ("bytes/s", "bytes read and written per second"),
    "read_size_bytes": ("bytes", "mean size of the reads of the interval"),
    "write_size_bytes": ("bytes", "mean size of the writes of the interval"),
    "size_bytes": ("bytes", "mean size of the reads and writes of the interval"),
    "queue_length": ("I/Os", "mean number of reads and writes in flight, those in service included"),
    "read_queue_length": ("I/Os", "mean number of reads in flight"),
    "write_queue_length": ("I/Os", "mean number of writes in flight"),
    "in_flight": ("I/Os", "reads and writes in flight at the moment of the sample"),
    "busy_percent": ("percent", "share of the interval with at least one I/O in flight"),
    "idle_percent": ("percent", "share of the interval with no I/O in flight"),
    "log_flushes_per_second": ("1/s", "writes of a database's transaction log per second"),
    "log_bytes_per_second": ("bytes/s", "bytes of transaction log written per second"),
}
"""Common metric name → its unit and what it means. A counter of another source takes one of these or none."""

PER_IO_METRICS: Final = frozenset(name for name in METRICS if name.endswith(("latency_ns", "size_bytes")))
"""Means per I/O: where no I/O ended there is none, though Windows then shows 0."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a counter's values say. ``factor`` brings the source's values into ``unit``."""

    unit: str | None = None
    layer: str | None = None
    metric: str | None = None
    factor: float = 1.0
    is_instant: bool | None = None
    """Whether a value stands for a moment rather than an interval; None where the name does not tell."""


def _metric(name: str, layer: str, factor: float = 1.0, *, is_instant: bool = False) -> Meaning:
    return Meaning(METRICS[name][0], layer, name, factor, is_instant)


# % Disk Time is a queue length times 100 (it passes 100 on any array), hence no busy_percent.
_DISK: Final[dict[str, Meaning]] = {
    "avg. disk sec/read": _metric("read_latency_ns", "block", 1e9),
    "avg. disk sec/write": _metric("write_latency_ns", "block", 1e9),
    "avg. disk sec/transfer": _metric("latency_ns", "block", 1e9),
    "disk reads/sec": _metric("read_iops", "block"),
    "disk writes/sec": _metric("write_iops", "block"),
    "disk transfers/sec": _metric("iops", "block"),
    "disk read bytes/sec": _metric("read_bytes_per_second", "block"),
    "disk write bytes/sec": _metric("write_bytes_per_second", "block"),
    "disk bytes/sec": _metric("bytes_per_second", "block"),
    "avg. disk bytes/read": _metric("read_size_bytes", "block"),
    "avg. disk bytes/write": _metric("write_size_bytes", "block"),
    "avg. disk bytes/transfer": _metric("size_bytes", "block"),
    "avg. disk queue length": _metric("queue_length", "block"),
    "avg. disk read queue length": _metric("read_queue_length", "block"),
    "avg. disk write queue length": _metric("write_queue_length", "block"),
    "current disk queue length": _metric("in_flight", "block", is_instant=True),
    "% idle time": _metric("idle_percent", "block"),
    "% disk time": Meaning("percent", "block", is_instant=False),
    "% disk read time": Meaning("percent", "block", is_instant=False),
    "% disk write time": Meaning("percent", "block", is_instant=False),
    "split io/sec": Meaning("1/s", "block", is_instant=False),
    "% free space": Meaning("percent", None, is_instant=True),
    "free megabytes": Meaning("MiB", None, is_instant=True),
}

# esxtop's batch output (VMware's guide to esxtop, storage panels): what a command takes as the guest sees it is what it
# waits in the kernel and what the device takes. One I/O is counted by its device, path, adapter and world: a metric has
# only the device, and the virtual disk, which is the guest's. MB are taken as 1024².
_ESX_DISKS: Final = frozenset({"physical disk scsi device", "physical disk nfs volume", "virtual disk"})
_ESX_OTHERS: Final = frozenset(
    {
        "physical disk",
        "physical disk adapter",
        "physical disk path",
        "physical disk partition",
        "physical disk per-device-per-world",
    }
)
_ESX: Final[dict[str, Meaning]] = {
    "commands/sec": _metric("iops", "block"),
    "reads/sec": _metric("read_iops", "block"),
    "writes/sec": _metric("write_iops", "block"),
    "mbytes read/sec": _metric("read_bytes_per_second", "block", 1024.0**2),
    "mbytes written/sec": _metric("write_bytes_per_second", "block", 1024.0**2),
    "average millisec/read": _metric("read_latency_ns", "block", 1e6),
    "average millisec/write": _metric("write_latency_ns", "block", 1e6),
    "average guest millisec/command": _metric("latency_ns", "block", 1e6),
    "average guest millisec/read": _metric("read_latency_ns", "block", 1e6),
    "average guest millisec/write": _metric("write_latency_ns", "block", 1e6),
    "average driver millisec/command": _metric("latency_ns", "device", 1e6),
    "average driver millisec/read": _metric("read_latency_ns", "device", 1e6),
    "average driver millisec/write": _metric("write_latency_ns", "device", 1e6),
    "active commands": _metric("in_flight", "device", is_instant=True),
    "queued commands": Meaning("I/Os", "block", is_instant=True),
    "failed commands/sec": Meaning("1/s", "block", is_instant=False),
} | {
    f"average {wait} millisec/{op}": Meaning("ns", "block", None, 1e6, is_instant=False)
    for wait in ("kernel", "queue")
    for op in ("command", "read", "write")
}

# Objects of SQL Server, without the instance's prefix. Pages are 8 KiB and no I/Os: one I/O moves up to 64 of them.
_SQL: Final[dict[tuple[str, str], Meaning]] = {
    ("buffer manager", "page reads/sec"): Meaning("pages/s", "sql", is_instant=False),
    ("buffer manager", "page writes/sec"): Meaning("pages/s", "sql", is_instant=False),
    ("buffer manager", "readahead pages/sec"): Meaning("pages/s", "sql", is_instant=False),
    ("buffer manager", "checkpoint pages/sec"): Meaning("pages/s", "sql", is_instant=False),
    ("buffer manager", "background writer pages/sec"): Meaning("pages/s", "sql", is_instant=False),
    ("buffer manager", "lazy writes/sec"): Meaning("pages/s", "sql", is_instant=False),
    ("buffer manager", "page life expectancy"): Meaning("s", is_instant=True),
    ("buffer node", "page life expectancy"): Meaning("s", is_instant=True),
    ("buffer manager", "buffer cache hit ratio"): Meaning("percent", is_instant=True),
    ("databases", "log flushes/sec"): _metric("log_flushes_per_second", "sql"),
    ("databases", "log bytes flushed/sec"): _metric("log_bytes_per_second", "sql"),
    ("databases", "log flush waits/sec"): Meaning("1/s", "sql", is_instant=False),
    ("databases", "log flush write time (ms)"): Meaning("ms", "sql"),
    ("databases", "log flush wait time"): Meaning("ms", "sql"),
    ("databases", "backup/restore throughput/sec"): Meaning("bytes/s", "sql", is_instant=False),
    ("databases", "transactions/sec"): Meaning("1/s", is_instant=False),
    ("databases", "data file(s) size (kb)"): Meaning("KiB", is_instant=True),
    ("databases", "log file(s) size (kb)"): Meaning("KiB", is_instant=True),
    ("databases", "log file(s) used size (kb)"): Meaning("KiB", is_instant=True),
    ("databases", "percent log used"): Meaning("percent", is_instant=True),
    ("resource pool stats", "disk read io/sec"): _metric("read_iops", "sql"),
    ("resource pool stats", "disk write io/sec"): _metric("write_iops", "sql"),
    ("resource pool stats", "disk read bytes/sec"): _metric("read_bytes_per_second", "sql"),
    ("resource pool stats", "disk write bytes/sec"): _metric("write_bytes_per_second", "sql"),
    ("resource pool stats", "avg disk read io (ms)"): _metric("read_latency_ns", "sql", 1e6),
    ("resource pool stats", "avg disk write io (ms)"): _metric("write_latency_ns", "sql", 1e6),
    ("sql statistics", "batch requests/sec"): Meaning("1/s", is_instant=False),
}

_SQL_OBJECT = re.compile(r"(?:sqlserver|mssql\$[^:]*|sqlagent(?:\$[^:]*)?):(.+)", re.IGNORECASE)

# Title numbers of the disk counters. Base counters of Windows have the same numbers in every language.
DISK_OBJECT_TITLES: Final = {234: "PhysicalDisk", 236: "LogicalDisk"}
DISK_COUNTER_TITLES: Final = {
    198: "Current Disk Queue Length", 200: "% Disk Time", 202: "% Disk Read Time", 204: "% Disk Write Time",
    206: "Avg. Disk sec/Transfer", 208: "Avg. Disk sec/Read", 210: "Avg. Disk sec/Write",
    212: "Disk Transfers/sec", 214: "Disk Reads/sec", 216: "Disk Writes/sec", 218: "Disk Bytes/sec",
    220: "Disk Read Bytes/sec", 222: "Disk Write Bytes/sec", 224: "Avg. Disk Bytes/Transfer",
    226: "Avg. Disk Bytes/Read", 228: "Avg. Disk Bytes/Write", 408: "% Free Space", 410: "Free Megabytes",
    1400: "Avg. Disk Queue Length", 1402: "Avg. Disk Read Queue Length", 1404: "Avg. Disk Write Queue Length",
    1482: "% Idle Time", 1484: "Split IO/Sec",
}  # fmt: skip


@lru_cache(maxsize=1 << 16)
def meaning(object_name: str, counter: str) -> Meaning:
    """Unit, layer and metric of a counter of Windows or SQL Server, by its name in English or a known translation."""
    object_name, counter = english(object_name, counter)
    object_word, counter_word = object_name.lower().strip(), counter.lower().strip()
    if object_word in {"physicaldisk", "logicaldisk"}:
        return _DISK.get(counter_word) or _by_wording(counter_word)
    if (esx := _ESX.get(counter_word)) and object_word in _ESX_DISKS | _ESX_OTHERS:
        return esx if object_word in _ESX_DISKS else replace(esx, layer=None, metric=None)
    if found := _SQL_OBJECT.fullmatch(object_word):
        return _SQL.get((found[1], counter_word)) or _by_wording(counter_word)
    return _by_wording(counter_word)


def _by_wording(counter: str) -> Meaning:
    """A unit that the English name itself states; no meaning is guessed."""
    if counter.startswith("% "):
        return Meaning("percent")
    # "Bytes Total/sec" as well as "Disk Bytes/sec".
    if counter.endswith("bytes/sec") or (counter.startswith("bytes ") and counter.endswith("/sec")):
        return Meaning("bytes/s", is_instant=False)
    if counter.endswith("/sec"):
        return Meaning("1/s", is_instant=False)
    for suffix, unit in (("(ms)", "ms"), ("(kb)", "KiB"), (" bytes", "bytes"), (" mbytes", "MiB")):
        if counter.endswith(suffix):
            return Meaning(unit)
    return Meaning()


def words_of_counters() -> frozenset[str]:
    """Every word of the names of objects, counters, metrics and units that are told here."""
    names = [
        *_OBJECTS,
        *_OBJECTS.values(),
        *_COUNTERS,
        *_COUNTERS.values(),
        *METRICS,
        *_DISK,
        *_ESX,
        *_ESX_DISKS,
        *_ESX_OTHERS,
    ]
    names += [word for pair in _SQL for word in pair]
    names += [known.unit for known in (*_DISK.values(), *_ESX.values(), *_SQL.values()) if known.unit]
    names += [unit for unit, _ in METRICS.values()]
    return frozenset(run for name in names for run in re.findall(r"[^\W\d_]+", name.lower()))
