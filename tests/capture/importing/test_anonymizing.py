"""Names go, what the analysis needs stays, and equal names stay equal."""

import re
from dataclasses import astuple

import pyarrow as pa
import pytest

from iotrace.capture.formats.windows.dmv_columns import IO_WAITS
from iotrace.capture.importing.anonymizing import Anonymizer
from iotrace.capture.plan.writing import counter_paths
from iotrace.schemas.host import Host, IoLimit


def test_a_path_keeps_its_shape_and_nothing_else() -> None:
    path = Anonymizer("key").path(r"E:\SQLData\Contoso\payroll.mdf")
    drive, *folders, file = path.split("\\")
    assert drive == "E:"
    assert len(folders) == 2
    assert file.endswith(".mdf")
    assert not {"sqldata", "contoso", "payroll"} & set(path.lower().replace(".", "\\").split("\\"))


def test_the_same_key_gives_the_same_name_in_any_case_and_another_key_another() -> None:
    one = Anonymizer("key").name("Payroll")
    assert one == Anonymizer("key").name("PAYROLL")
    assert one != Anonymizer("other").name("Payroll")
    assert Anonymizer().name("Payroll") != Anonymizer().name("Payroll")


def test_what_every_system_has_stays() -> None:
    anonymizer = Anonymizer()
    for name in (
        "sqlservr.exe",
        "System",
        "tempdb",
        "_Total",
        "C:",
        "0 C:",
        "$LogFile",
        r"\Device\HarddiskVolume2",
    ):
        assert anonymizer.path(name) == name


def test_free_text_and_unknown_tables_lose_their_words() -> None:
    anonymizer = Anonymizer()
    markers = pa.record_batch({"at_ns": [1], "kind": ["checkpoint"], "text": ["database Contoso"]})
    assert anonymizer.batch("markers", markers).to_pylist() == [
        {"at_ns": 1, "kind": "checkpoint", "text": None}
    ]
    events = pa.record_batch({"at_ns": [1], "fields": ['{"statement": "SELECT * FROM payroll"}']})
    assert anonymizer.batch("xevents", events).to_pylist() == [{"at_ns": 1}]
    assert anonymizer.batch("payroll", events) is None


def test_no_cell_of_a_batch_gives_a_name_away() -> None:
    anonymizer = Anonymizer()
    batches = {
        "devices": {"device_id": [0], "name": ["/dev/contoso"], "kind": ["disk"], "mount": ["/srv/contoso"]},
        "files": {"file_id": [0], "path": [r"D:\contoso.ldf"], "role": ["log"], "database": ["contoso"]},
        "processes": {"process_id": [0], "name": ["contoso.exe"], "command_line": ["contoso /secret"]},
        "counters": {"at_ns": [0], "source": [r"\\CONTOSO"], "instance": ["contoso"], "counter": ["Reads"]},
    }
    for name, columns in batches.items():
        assert "contoso" not in str(anonymizer.batch(name, pa.record_batch(columns)).to_pylist()).lower()


def test_a_counter_object_tells_no_named_instance() -> None:
    objects = ["MSSQL$PAYROLL:Databases", "SQLAgent$PAYROLL:Jobs", "SQLServer:Databases", "PhysicalDisk"]
    anonymizer = Anonymizer("key")
    batch = pa.RecordBatch.from_pydict({"object": objects})
    found = anonymizer.batch("counters", batch)["object"].to_pylist()
    assert found == [
        f"MSSQL${anonymizer.name('PAYROLL')}:Databases",
        f"SQLAgent${anonymizer.name('PAYROLL')}:Jobs",
        *objects[2:],
    ]
    assert "PAYROLL" not in str(found)


@pytest.mark.parametrize(
    "type_", [pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.binary(), pa.list_(pa.string())]
)
@pytest.mark.parametrize("table", ["xevents", "io", "markers"])
def test_a_table_loses_columns_that_it_should_not_have(table: str, type_: pa.DataType) -> None:
    words = pa.array([["payroll"]] if pa.types.is_list(type_) else ["payroll"]).cast(type_)
    batch = pa.RecordBatch.from_arrays(
        [words, pa.array([7]), pa.array([8])], names=["words", "payroll", "at_ns"]
    )
    kept = Anonymizer("key").batch(table, batch)
    assert kept is not None
    assert kept.to_pydict() == ({} if table == "io" else {"at_ns": [8]})


def test_a_limit_of_a_cgroup_stays_without_its_name() -> None:
    limit = IoLimit("/contoso.slice/payroll", "vg-contoso", read_iops=200)
    anonymizer = Anonymizer("key")
    (found,) = anonymizer.host(Host(io_limits=[limit])).io_limits
    assert (found.device, found.read_iops) == (anonymizer.path("vg-contoso"), 200)
    assert found.cgroup.count("/") == 2
    assert not {"contoso", "payroll", "slice"} & set(re.findall("[a-z]+", str(found)))
    assert limit.cgroup == "/contoso.slice/payroll"


KEPT = {
    "system": ["Linux", "Windows Server 2019 build 17763", "VMware ESXi", "Windows 10.0 build 20348"],
    "kernel": [
        "5.15.0-1053-azure", "4.18.0-553.el8_10.x86_64", "6.1.0-21-amd64", "5.10.16.3-microsoft-standard-WSL2",
        "5.14.21-150500.55.12-default", "5.10.217-205.860.amzn2.x86_64",
    ],
    "machine": ["x86_64", "aarch64", "AMD64"],
    "cpu_model": [
        "Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz", "AMD EPYC 7763 64-Core Processor", "Neoverse-N1",
        "Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz", "13th Gen Intel(R) Core(TM) i7-13700H",
    ],
    "database": ["SQL Server"],
    "cpu_governor": ["performance", ""],
}  # fmt: skip


@pytest.mark.parametrize(("fact", "text"), [(fact, text) for fact, texts in KEPT.items() for text in texts])
def test_what_a_host_is_stays(fact: str, text: str) -> None:
    assert getattr(Anonymizer().host(Host(**{fact: text})), fact) == text


@pytest.mark.parametrize(
    "text", ["5.15.0-contoso", "Contoso OS", "c o n t o s o", "1c2o3n4t5o6s7o", "4" * 40]
)
def test_what_might_be_a_name_goes(text: str) -> None:
    told = dict.fromkeys(
        ("name", "system", "kernel", "machine", "cpu_model", "database", "cpu_governor"), text
    )
    host = Anonymizer().host(Host(**told))
    assert text not in astuple(host)


def test_the_counters_that_a_plan_and_linux_record_keep_their_names() -> None:
    found = [path.lstrip("\\").rpartition("\\") for path in counter_paths(of_sql_server=True)]
    found += [("diskstats", "", "read bytes per second"), ("pressure", "", "io some stalled")]
    anonymizer = Anonymizer()
    for path, _, counter in found:
        object_ = path.partition("(")[0]
        batch = pa.record_batch({"object": [object_], "counter": [counter]})
        kept = anonymizer.batch("counters", batch)
        assert kept is not None
        assert kept.to_pylist() == [{"object": object_, "counter": counter}]


def test_the_waits_that_are_read_keep_their_names() -> None:
    waits = [*IO_WAITS, "LCK_M_SCH_S", "CXPACKET", "SOS_SCHEDULER_YIELD", "PAGELATCH_EX", "HADR_SYNC_COMMIT"]
    kept = Anonymizer().batch("waits", pa.record_batch({"wait_type": [*waits, "CONTOSO_IO"]}))
    assert kept is not None
    assert kept["wait_type"].to_pylist()[:-1] == waits
    assert "contoso" not in kept["wait_type"].to_pylist()[-1].lower()
