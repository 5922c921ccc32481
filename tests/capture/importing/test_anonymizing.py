"""Names go, what the analysis needs stays, and equal names stay equal."""

import pyarrow as pa
import pytest

from iotrace.capture.importing.anonymizing import Anonymizer


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
    assert anonymizer.batch("xevents", events).to_pylist() == [{"at_ns": 1, "fields": None}]


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
def test_an_unknown_table_loses_words_of_any_type(type_: pa.DataType) -> None:
    words = pa.array([["payroll"]] if pa.types.is_list(type_) else ["payroll"]).cast(type_)
    batch = pa.RecordBatch.from_arrays([words, pa.array([7])], names=["words", "number"])
    assert Anonymizer("key").batch("xevents", batch).to_pydict() == {"words": [None], "number": [7]}
