"""Names as a trace may bring them: harmful to a terminal, a page, a table or a program, unless shown with care.

`write_recording` makes a recording that has each of them wherever a recording takes names; the fixture
``hostile_recording`` is one. `assert_harmless` holds what is shown to a terminal against it.
"""

import json
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from iotrace.schemas import Clock, Manifest, Recording, RecordingWriter, Source
from iotrace.schemas.host import Host

HOSTILE_NAMES: Final[dict[str, str]] = {
    "script": "<script>alert('script')</script>",
    "attribute": "\" onmouseover=\"alert('attribute')\" x='",
    "end of an element": "</title></style></script><img src=x onerror=alert('element')>",
    "entity": "&lt;b&gt; &amp;#x3c; &#60;",
    "right to left": "sales\u202efdm.exe \u200f\u200e \u2066 \u061c",
    "invisible": "log\u200b\u00ad\ufeff\u2060.ldf",
    "escape sequences": "\x1b[2J\x1b[31mred\x1b]0;title\x07\x1b]8;;http://x.invalid\x1b\\link",
    "one-byte escape sequences": "\x9b31mred \x9d0;title\x9c",
    "lines of its own": "data.mdf\nquality of prod: good\r\nall   9,999 9,999",
    "overwriting": "bad.mdf\r\x1b[Kgood.mdf \b\b\b\b \x7f \x00 \x0b\x0c\t",
    "other line ends": "one\u2028two\u2029three\u0085four\x1cfive",
    "markup of rich": "[red]red[/red] [bold not closed [/] [link=http://x.invalid]x[/link] :warning:",
    "template": "{{ 7*7 }} {% for x in y %} ${7*7} #{7}",
    "template of a chart": "%{x}<extra>more</extra> <b>bold</b><br>next",
    "formula": "=cmd|' /C calc'!A0",
    "query": '\'; DROP VIEW io; -- "io"',
    "format string": "{0.__class__} %s %n %(x)d \\u0041 \\N{BELL}",
    "4 KB path": "D:\\" + "a long folder\\" * 292 + "sales.mdf",
    "no break": "X" * 4096,
    "combining marks": "sales" + "\u0351\u0323\u0337" * 40 + ".mdf",
    "wide": "数据库\U0001f4be\U0001f468\u200d\U0001f469\u200d\U0001f467.mdf",
    "what was no text": "sales\ufffd\ufffd.mdf",
    "no characters": "\ufffe \U0010ffff \ue000",
    "nothing": "",
    "blanks": "   ",
    "no name": "NULL",
}

LONE_SURROGATE: Final = "sales\ud800.mdf"
"""Half a character, as invalid UTF-16 leaves it; tables cannot hold it, what is kept as JSON can."""

INVALID_UTF8: Final = b"sales\xed\xa0\x80\xff.mdf"
"""The same in bytes of a table that a careless program wrote."""

_SECOND: Final = 1_000_000_000
_IOS_PER_FILE: Final = 120


def write_recording(path: Path) -> Recording:
    """A recording of three seconds at two layers, with hostile names for whatever has a name."""
    names = list(HOSTILE_NAMES.values())
    with RecordingWriter(path) as writer:
        writer.append("io", _io(len(names)))
        for table, rows in _tables(names).items():
            writer.append(table, pa.Table.from_pylist(rows))
        manifest = Manifest(
            "captured", " ".join(names[:12]) + LONE_SURROGATE, Clock(1_790_000_000_000_000_000, 100, names[0])
        )
        manifest.window_end_ns = 3 * _SECOND
        manifest.host = Host(names[6], names[0], kernel=names[8], cpu_model=LONE_SURROGATE)
        manifest.sources = [Source(name, names[1], 10, None, 5) for name in [*names, LONE_SURROGATE]]
        manifest.quality.ended = names[6] + LONE_SURROGATE
        manifest.quality.notes = names[:10]
        manifest.quality.judge(1000)
        return writer.commit(manifest)


def _io(files: int) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for number in range(files * _IOS_PER_FILE):
        at = number * 2 * _SECOND // (files * _IOS_PER_FILE)
        row = {
            "op": "write" if number % 3 else "read",
            "offset_bytes": number * 8192,
            "size_bytes": 8192,
            "device_id": number % 4,
            "file_id": number % files,
            "process_id": number % files,
            "error": 5 if number % 997 == 0 else 0,
        }
        rows.append(row | {"layer": "block", "issued_ns": at, "completed_ns": at + 900_000})
        rows.append(row | {"layer": "device", "issued_ns": at + 1000, "completed_ns": at + 800_000})
    return pa.Table.from_pylist(rows)


def _tables(names: list[str]) -> dict[str, list[dict[str, Any]]]:
    every_role = cycle(["data", "log", "tempdb_data", "tempdb_log", "backup", "system", "other"])
    of_counters = {"interval_ns": _SECOND, "layer": "block"}
    return {
        "devices": [
            {"device_id": number, "name": name, "kind": "disk", "mount": mount, "filesystem": name, "model": name}
            for number, (name, mount) in enumerate(zip(names, [names[6], names[0], None, *names[3:]], strict=True))
        ],
        "files": [
            {"file_id": number, "path": name, "role": role, "database": name, "device_id": number % 4}
            for number, (name, role) in enumerate(zip(names, every_role, strict=False))
        ],
        "processes": [
            {"process_id": number, "os_process_id": number, "name": name, "command_line": name}
            for number, name in enumerate(names)
        ],
        "waits": [
            {"at_ns": number * 1000, "wait_type": name, "duration_ns": 500_000, "signal_ns": 100, "database": name}
            for number, name in enumerate(names)
        ],
        "markers": [
            {"at_ns": number * 1000, "duration_ns": 500_000, "kind": name, "text": name}
            for number, name in enumerate(names)
        ],
        "counters": [
            {"at_ns": second * _SECOND, "source": name, "object": name, "instance": name, "counter": name,
             "value": 7.0 + second, "unit": name, "metric": metric} | of_counters
            for name in names
            for metric in (name, "read_latency_ns", "iops")
            for second in (1, 2)
        ],
    }  # fmt: skip


def assert_harmless(text: str) -> None:
    """Nothing in ``text`` drives a terminal, turns its direction, hides, or begins a line that iotrace did not."""
    bad = {char for char in text if not char.isprintable() and char != "\n"}
    assert not bad, f"not to be shown: {sorted(map(hex, map(ord, bad)))}"
    assert not any(line.startswith(("quality of prod: good", "all   9,999")) for line in text.splitlines())


def assert_harmless_json(text: str) -> Any:
    """``text`` is JSON that a terminal can show; gives what it says."""
    assert_harmless(text)
    return json.loads(text)
