"""Recordings in object storage, behind a server that speaks Amazon's protocol on this machine."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from iotrace.analyze.fleet import named_recordings, summaries
from iotrace.analyze.fleet.summary import summarise
from iotrace.cli.main import run
from iotrace.schemas import IotraceError, Recording, stored
from iotrace.schemas.stored import SWEEP_FILE, Stored, brought, stored_at, stored_recordings

BUNDLED = next((Path(__file__).parents[2] / "cli" / "bundled").glob("*.iotrace"))
HOSTS = ("sql1", "sql2", "sql 3 %20é")


@pytest.fixture(scope="module")
def bucket() -> Iterator[fs.FileSystem]:
    """A server with a fleet of copies, a sweep, and what is none of ours."""
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        files = fs.S3FileSystem(endpoint_override=settings["AWS_ENDPOINT_URL"], allow_bucket_creation=True)
        files.create_dir("bucket")
        for name in HOSTS:
            copy(files, BUNDLED, f"bucket/fleet/{name}.iotrace")
        copy(files, BUNDLED, "bucket/deep/sql4/night.iotrace")
        put(files, "bucket/deep/sweep.iotrace/sweep.json", b"{}")
        put(files, "bucket/fleet/notes.txt", b"none of ours")
        yield files
    server.stop()


def copy(files: fs.FileSystem, folder: Path, place: str) -> None:
    for file in folder.iterdir():
        put(files, f"{place}/{file.name}", file.read_bytes())


def put(files: fs.FileSystem, place: str, content: bytes) -> None:
    with files.open_output_stream(place) as stream:
        stream.write(content)


@pytest.mark.parametrize(
    ("word", "url"),
    [
        ("s3://b/x", "s3://b/x"),
        (Path("s3://b/fleet/"), "s3://b/fleet"),  # as a command line has it
        ("abfss://box@account.dfs.core.windows.net/x", "abfss://box@account.dfs.core.windows.net/x"),
        ("gs://b/x?scheme=http", "gs://b/x"),
        ("/traces/s3", None),
        ("s3", None),
        ("http://b/x", None),
    ],
)
def test_what_names_object_storage(word, url):
    found = stored_at(word)
    assert (None if found is None else found.url) == url


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("s3://bucket/fleet", sorted(f"s3://bucket/fleet/{name}.iotrace" for name in HOSTS)),
        ("s3://bucket/deep", ["s3://bucket/deep/sql4/night.iotrace"]),
        (
            "s3://bucket/fleet/sql[12].iotrace",
            ["s3://bucket/fleet/sql1.iotrace", "s3://bucket/fleet/sql2.iotrace"],
        ),
        ("s3://bucket/*/sql4/*", ["s3://bucket/deep/sql4/night.iotrace"]),
        ("s3://bucket/fleet/sql1.iotrace/", ["s3://bucket/fleet/sql1.iotrace"]),
        ("s3://bucket/deep/sweep.iotrace", ["s3://bucket/deep/sweep.iotrace"]),
    ],
)
def test_folders_and_patterns_stand_for_what_is_in_them(bucket, word, names):
    assert [str(one) for one in named_recordings([Path(word)])] == names


def test_sweeps_are_found_where_they_are_wanted(bucket):
    found = stored_recordings(Stored("s3://bucket/deep"), (SWEEP_FILE,))
    assert found == [Stored("s3://bucket/deep/sweep.iotrace")]


@pytest.mark.parametrize("word", ["s3://bucket/nothing", "s3://bucket/fleet/x*.iotrace", "s3://elsewhere/x"])
def test_nothing_there_is_said_in_the_users_words(bucket, word):
    with pytest.raises(IotraceError) as refused:
        named_recordings([Path(word)])
    assert word in refused.value.message


def test_a_recording_is_brought_whole_and_gone_afterwards(bucket):
    for name in HOSTS:
        with brought(Stored(f"s3://bucket/fleet/{name}.iotrace")) as folder:
            assert Recording.open(folder).name == name
            held = {file.name: file.read_bytes() for file in folder.iterdir()}
            assert held == {file.name: file.read_bytes() for file in BUNDLED.iterdir()}
        assert not folder.exists()


def test_only_files_of_recordings_are_brought_and_none_outside(bucket):
    place = "bucket/odd/odd.iotrace"
    copy(bucket, BUNDLED, place)
    put(bucket, f"{place}/run.sh", b"echo harm")
    with brought(Stored(f"s3://{place}")) as folder:
        assert not (folder / "run.sh").exists()
        assert (folder / "io.parquet").exists()


def test_what_is_wrong_with_a_copy_is_said_of_the_original(bucket):
    put(bucket, "bucket/bad/bad.iotrace/manifest.json", b"{")
    url = "s3://bucket/bad/bad.iotrace"
    with pytest.raises(IotraceError) as refused, brought(Stored(url)) as folder:
        Recording.open(folder)
    assert url in refused.value.message
    assert str(folder) not in refused.value.message


def test_no_room_is_said_before_anything_is_brought(bucket, monkeypatch):
    monkeypatch.setattr(stored, "_LEFT_FREE_BYTES", shutil.disk_usage("/").total * 1000)
    with (
        pytest.raises(IotraceError, match="has room for") as refused,
        brought(Stored("s3://bucket/fleet/sql1.iotrace")),
    ):
        pass
    assert "TMPDIR" in refused.value.hint


def test_a_summary_is_that_of_the_file(bucket):
    """In processes of their own, which know the storage from the environment."""
    places = named_recordings([Path("s3://bucket/fleet/sql[12].iotrace")])
    here = summarise(BUNDLED)
    for place, found in zip(places, summaries(places), strict=True):
        assert found.path == str(place)
        assert (found.io_count, found.uuid, found.quality) == (here.io_count, here.uuid, here.quality)
        for op, histogram in here.latency.items():
            assert (found.latency[op].io_count == histogram.io_count).all()


@pytest.mark.parametrize(
    "words",
    [["describe"], ["incident"], ["query", "SELECT op, count(*) AS n FROM io GROUP BY op ORDER BY op"]],
)
def test_commands_answer_as_of_the_file(bucket, capsys, words):
    command, *rest = words
    assert run([command, str(BUNDLED), *rest, "--json"]) == 0
    here = capsys.readouterr().out
    assert run([command, "s3://bucket/fleet/sql1.iotrace", *rest, "--json"]) == 0
    assert capsys.readouterr().out == here
