"""What is asked for is checked before anything is written, and what it costs is plain arithmetic."""

import pytest

from iotrace.capture.plan import PlanOptions, options
from iotrace.capture.plan.options import budget_of, parse_layers
from iotrace.schemas import IotraceError

from .conftest import etl_build, xel_build


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"layers": ("sql", "wire")}, "wire"),
        ({"layers": ()}, "--layers"),
        ({"minutes": 0}, "--minutes 0"),
        ({"minutes": 1441}, "--minutes 1441"),
        ({"iops": 1}, "--iops 1"),
        ({"snapshot_seconds": 1}, "--snapshot-seconds 1"),
        ({"counter_format": "xls"}, "xls"),
        ({"folder": "iotrace"}, "iotrace"),
        ({"folder": "C:\\"}, "C:\\"),
        ({"folder": "\\\\server\\share\\x"}, "server"),
        ({"folder": "C:\\a\\..\\b"}, ".."),
        ({"folder": "C:\\a \\b"}, "a "),
        ({"folder": "C:\\a\\\\b"}, "C:"),
        ({"folder": 'C:\\a"b'}, 'a"b'),
        ({"folder": "C:\\%TEMP%"}, "%TEMP%"),
        ({"folder": "C:\\a\nb"}, "C:"),
        ({"folder": "C:\\a[b]"}, "a[b]"),
        ({"folder": "C:\\a`b"}, "a`b"),
        ({"folder": "C:\\" + "x" * 130}, "C:"),
        ({"sql_instance": ""}, "--sql-instance"),
        ({"sql_instance": "a\r\nb"}, "--sql-instance"),
        ({"sql_instance": "x" * 401}, "--sql-instance"),
    ],
)
def test_what_makes_no_plan_is_refused_by_name(options, word):
    with pytest.raises(IotraceError) as refused:
        PlanOptions(**options)
    assert word in refused.value.message
    assert refused.value.message.isprintable()
    assert refused.value.hint


def test_layers_are_taken_together_or_apart():
    assert parse_layers(["device, SQL", "block"]) == ("sql", "block", "device")
    with pytest.raises(IotraceError):
        parse_layers([","])


@pytest.mark.parametrize(
    ("layers", "flags"),
    [
        # EVENT_TRACE_FLAG_PROCESS 1, THREAD 2, DISK_IO 0x100, DISK_FILE_IO 0x200, FILE_IO 0x2000000,
        # FILE_IO_INIT 0x4000000
        (("block",), 0x1 | 0x2 | 0x100 | 0x200),
        (("filesystem",), 0x1 | 0x2 | 0x100 | 0x200 | 0x2000000 | 0x4000000),
        (("sql", "device"), 0),
    ],
)
def test_kernel_flags(layers, flags):
    assert PlanOptions(layers=layers).kernel_flags == flags


def test_the_default_instance_is_asked_only_where_a_layer_needs_it():
    assert PlanOptions(layers=("sql",)).instance == "."
    assert PlanOptions(layers=("block",)).instance is None
    assert PlanOptions(layers=("block",), sql_instance="A\\B").instance == "A\\B"


def test_sizes_are_rate_times_time():
    found = budget_of(PlanOptions(minutes=60, iops=10_000))
    parts = {part.name: part for part in found.parts}
    # 36 million I/Os at 100 bytes; half as much again is 5,149.8 MiB, in steps of 256.
    assert parts["kernel"].expected_bytes == 3_600_000_000
    assert parts["kernel"].limit_mib == 5376
    assert parts["kernel"].events_per_second == 10_000
    # At 300 bytes 15,449.5 MiB.
    assert parts["sql"].limit_mib == 15_616
    assert list(parts) == ["kernel", "sql", "counters", "snapshots"]
    assert found.total_limit_mib == sum(part.limit_mib for part in parts.values())


def test_estimates_cover_the_documented_layouts_of_the_events():
    """What an I/O takes in a file by the layouts that the constructed traces follow, and at most three times that."""

    def kernel(hook: int, payload: bytes) -> int:
        return len(etl_build.pad(etl_build.perfinfo(hook, 1, payload)))

    def storport(event: int, payload: bytes, version: int) -> int:
        return len(
            etl_build.pad(etl_build.manifest(etl_build.STORPORT_GUID, event, 1, payload, version=version))
        )

    timed = etl_build.request_timed(duration=1)
    device = 2 * storport(201, timed, 2)
    device += storport(202, etl_build.request_dispatch(), 2) + storport(208, etl_build.request_done(), 1)
    operation = kernel(etl_build.OPERATIONS["read"], etl_build.operation("read"))
    path = "E:\\MSSQL15.PRODUCTION\\MSSQL\\DATA\\Warehouse_Sales_2026_03.ndf"
    io = {"database_id": 7, "file_id": 3, "size": 65536, "duration": 3, "offset": 0, "path": path}
    sql = len(xel_build.event("file_read_completed", 1, io, {"event_sequence": 1}))
    for estimate, layout in (
        (options.BLOCK_BYTES, kernel(etl_build.READ, etl_build.transfer())),
        (options.FILESYSTEM_BYTES, operation + kernel(etl_build.OPERATION_END, etl_build.operation_end(1))),
        (options.DEVICE_BYTES, device),
        (options.SQL_BYTES, sql),
    ):
        assert layout <= estimate <= 3 * layout


def test_no_part_is_planned_that_is_not_asked_for():
    parts = {part.name for part in budget_of(PlanOptions(layers=("device",))).parts}
    assert parts == {"storport", "counters"}
