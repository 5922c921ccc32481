"""Reports of sysstat's tools: planted values, by the units of its manual pages."""

from pathlib import Path

import pytest

from iotrace.capture.formats.linux import sysstat
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError, validate

FIXTURES = Path(__file__).parents[3] / "fixtures"
SECOND = 1_000_000_000
NOON_UTC_NS = 1_773_403_200 * SECOND  # 2026-03-13T12:00:00Z
NEW_YEAR_UTC_NS = 1_767_225_601 * SECOND  # 2026-01-01T00:00:01Z


@pytest.fixture
def imported(tmp_path):
    def run(data, name="iostat.txt", **how):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        recording = import_files([path], tmp_path / "x.iotrace", overwrite=True, **how)
        assert not validate(recording.path)
        return recording

    return run


def values(recording, device, at_s):
    """{counter: (value, unit, metric)} of one device at one time."""
    return {
        row["counter"]: (row["value"], row["unit"], row["metric"])
        for row in recording.read("counters").to_pylist()
        if (row["instance"], row["at_ns"]) == (device, at_s * SECOND)
    }


def text(name):
    folder = "linux" if name in {"iostat.txt", "sadf.csv"} else "sysstat"
    return (FIXTURES / folder / name).read_text()


def test_extended_reports_with_their_times(imported):
    recording = imported(text("iostat.txt"))
    assert recording.manifest.clock.start_utc_ns == NOON_UTC_NS
    rows = recording.read("counters").to_pylist()
    assert {(row["source"], row["object"], row["layer"]) for row in rows} == {("db01", "iostat", "block")}
    # The first report is about the time since boot.
    assert {(row["at_ns"], row["interval_ns"]) for row in rows} == {
        (5 * SECOND, 5 * SECOND), (10 * SECOND, 5 * SECOND),
    }  # fmt: skip
    assert any("since boot" in note for note in recording.manifest.quality.notes)
    nvme = values(recording, "nvme0n1", 5)
    assert nvme["r/s"] == (400, "1/s", "read_iops")
    assert nvme["rkB/s"] == (3200 * 1024, "bytes/s", "read_bytes_per_second")
    assert nvme["r_await"] == (500_000, "ns", "read_latency_ns")
    assert nvme["rareq-sz"] == (8 * 1024, "bytes", "read_size_bytes")
    assert nvme["aqu-sz"] == (0.2, "I/Os", "queue_length")
    assert nvme["%util"] == (18, "percent", "busy_percent")
    assert nvme["d_await"] == (2_000_000, "ns", None)
    # No write ended: 0 is no latency and no size.
    assert nvme["w/s"] == (0, "1/s", "write_iops")
    assert (nvme["w_await"][2], nvme["wareq-sz"][2]) == (None, None)
    sda = values(recording, "sda", 5)
    assert (sda["w/s"][0], sda["w_await"][0], sda["f/s"][0]) == (20, 1_250_000, 2)
    assert "%rrqm" not in sda


def test_reports_without_times_keep_their_order_and_say_so(imported):
    data = "\n".join(line for line in text("iostat.txt").split("\n") if not line.startswith("2026-"))
    recording = imported(data)
    assert recording.manifest.clock.start_utc_ns == 0
    reads = [row for row in recording.read("counters").sort_by("at_ns").to_pylist()
             if (row["instance"], row["counter"]) == ("nvme0n1", "r/s")]  # fmt: skip
    assert [row["value"] for row in reads] == [400, 100]
    assert {row["interval_ns"] for row in reads} == {None}
    assert any("show no time" in note for note in recording.manifest.quality.notes)


def test_json_of_iostat_is_in_local_time(imported):
    with pytest.raises(IotraceError, match="local times"):
        imported(text("iostat.json"), "iostat.json")
    recording = imported(text("iostat.json"), "iostat.json", timezone="Europe/Berlin")
    assert recording.manifest.clock.start_utc_ns == NOON_UTC_NS
    assert values(recording, "sda", 5) == {
        "r/s": (0, "1/s", "read_iops"),
        "w/s": (20, "1/s", "write_iops"),
        "rkB/s": (0, "bytes/s", "read_bytes_per_second"),
        "wkB/s": (160 * 1024, "bytes/s", "write_bytes_per_second"),
        "r_await": (0, "ns", None),
        "w_await": (1_250_000, "ns", "write_latency_ns"),
        "aqu-sz": (0.03, "I/Os", "queue_length"),
        "%util": (1.5, "percent", "busy_percent"),
    }


def test_numbers_that_cannot_be_are_left_out(imported):
    """As a tool writes them whose counters wrapped, or a hand that means harm."""
    whole = text("iostat.json")
    good = values(imported(whole, "iostat.json", timezone="Europe/Berlin"), "sda", 5)
    odd = whole.replace('"w_await": 1.25', '"w_await": -1.25').replace('"aqu-sz": 0.03', '"aqu-sz": NaN')
    kept = values(imported(odd, "odd.json", timezone="Europe/Berlin"), "sda", 5)
    assert kept == {name: value for name, value in good.items() if name not in {"w_await", "aqu-sz"}}


@pytest.mark.parametrize("name", ["sar.txt", "sadf.csv"])
def test_sar_over_midnight_and_a_restart(imported, name):
    """Sectors are 512 bytes; the average at the end is no interval; a decimal comma is one."""
    recording = imported(text(name), name, timezone="UTC")
    assert recording.manifest.clock.start_utc_ns == NEW_YEAR_UTC_NS - 600 * SECOND
    device = "sda" if name == "sadf.csv" else "dev8-0"
    by_metric = [
        {metric: value for value, _, metric in values(recording, device, at_s).values() if metric}
        for at_s in (600, 1800)
    ]
    assert by_metric == [
        {"iops": 10, "read_bytes_per_second": 320 * 512, "write_bytes_per_second": 160 * 512, "size_bytes": 48 * 512,
         "queue_length": 0.02, "latency_ns": 2_000_000, "busy_percent": 0.5},
        {"iops": 20, "read_bytes_per_second": 640 * 512, "write_bytes_per_second": 320 * 512, "size_bytes": 48 * 512,
         "queue_length": 0.06, "latency_ns": 3_000_000, "busy_percent": 1.0},
    ]  # fmt: skip
    assert {row["interval_ns"] for row in recording.read("counters").to_pylist()} == {600 * SECOND}
    assert any("1 restart" in note for note in recording.manifest.quality.notes)


def test_two_tables_of_one_report_belong_together(imported):
    """``iostat -xs`` breaks a report into tables of other columns, ``-g`` and ``-h`` put the device last."""
    report = "Device r/s w/s\nsda 1.00 2.00\n\nr_await w_await Device\n 3.00 4.00 sda\n\n"
    recording = imported(f"Linux 6.1 (h) 03/13/2026 _x86_64_ (1 CPU)\n\n{report}{report}{report}")
    found = [(row["at_ns"], row["counter"], row["value"]) for row in recording.read("counters").to_pylist()]
    assert sorted(found) == sorted(
        (at * SECOND, counter, value)
        for at in (1, 2)
        for counter, value in (("r/s", 1), ("w/s", 2), ("r_await", 3e6), ("w_await", 4e6))
    )


def test_one_report_is_about_no_interval(imported):
    start = text("iostat.txt").split("2026-03-13T13:00:05")[0]
    with pytest.raises(IotraceError, match="no report of an interval") as problem:
        imported(start)
    assert "iostat -xt" in problem.value.hint


def test_the_report_since_boot_is_known_by_the_banner_above_it(imported):
    """A listing that somebody indented, as one public file is; and one whose beginning is lost."""
    indented = "".join(f" {line}\n" for line in text("iostat.txt").split("\n"))
    assert len(imported(indented).read("counters")) == len(imported(text("iostat.txt")).read("counters"))
    headless = text("iostat.txt").partition("\n")[2]
    reads = [row["value"] for row in imported(headless).read("counters").sort_by("at_ns").to_pylist()
             if (row["instance"], row["counter"]) == ("nvme0n1", "r/s")]  # fmt: skip
    assert reads == [9.99, 400, 100]


def test_a_date_that_can_be_read_two_ways_is_refused(imported):
    data = text("sar.txt").replace("12/31/2025", "01/02/2026").replace(" PM", "   ").replace(" AM", "   ")
    with pytest.raises(IotraceError, match="can be read two ways"):
        imported(data, "sar.txt", timezone="UTC")


@pytest.mark.parametrize("cut", [1300, 1500, 1717, 1900, 2200])
def test_a_cut_report_loses_no_more_than_its_last_line(imported, cut):
    whole = imported(text("iostat.txt")).read("counters").to_pylist()
    try:
        part = imported(text("iostat.txt")[:cut]).read("counters").to_pylist()
    except IotraceError as problem:
        assert "no report of an interval" in problem.message  # noqa: PT017
        return
    assert all(row in whole for row in part)


def test_inspect_tells_devices_and_reports():
    facts = sysstat.FORMAT.inspect(FIXTURES / "linux" / "iostat.txt", "iostat.txt")
    assert (facts["devices"], facts["reports"], facts["dated"]) == (["nvme0n1", "sda"], 2, True)


def test_times_of_day_as_sysstat_9_wrote_them(imported):
    """``iostat -t`` told only the time of day until sysstat 9; the date stands in the first line, and days go on."""
    told = "Linux 2.6.18 (db1)    03/13/2026\n\n"
    for clock in ("11:59:50 PM", "11:59:55 PM", "12:00:00 AM"):
        told += (
            f"Time: {clock}\nDevice:   rrqm/s  wrqm/s  r/s  w/s  rsec/s  wsec/s avgrq-sz avgqu-sz await svctm %util\n"
            "sda       0.00    1.00  4.00  2.00  64.00  32.00  16.00  0.05  8.00  3.00  1.80\n\n"
        )
    recording = imported(told, timezone="UTC")
    assert recording.manifest.clock.start_utc_ns == NOON_UTC_NS + (12 * 3600 - 10) * SECOND
    times = sorted({row["at_ns"] // SECOND for row in recording.read("counters").to_pylist()})
    assert times == [5, 10]  # the first is about the time since boot
    assert values(recording, "sda", 10)["await"] == (8e6, "ns", "latency_ns")


@pytest.mark.parametrize(
    "report", ["avg-cpu:  %user   %idle\n          1.00   99.00\n", "12:00:01  CPU  %user\n"]
)
def test_a_report_without_disks_is_named(imported, report):
    with pytest.raises(IotraceError, match="without disks") as refused:
        imported(f"Linux 5.4.0 (db1)\t03/13/2026\t_x86_64_\t(8 CPU)\n\n{report}")
    assert "iostat -xt" in refused.value.hint
