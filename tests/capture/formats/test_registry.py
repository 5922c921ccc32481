"""The table of formats: nothing is loaded that a file cannot be of, and a package of strangers has the same door."""

import random
import re
import subprocess
import sys
import venv
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from iotrace.capture.formats import registry
from iotrace.capture.formats.format import GROUP, HEAD_BYTES, Entry, Format, Head
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError

TESTS = Path(__file__).parents[2]
FIXTURES = TESTS / "fixtures"
FORMATS_PAGE = TESTS.parent / "docs" / "formats.md"
FILES = sorted(path for path in FIXTURES.rglob("*") if path.is_file() and "recordings" not in path.parts)


def damaged(head, chance):
    cut = head[: chance.randrange(len(head) + 1)]
    flipped = bytearray(head)
    for _ in range(8):
        flipped[chance.randrange(len(head))] = chance.randrange(256)
    return [head, cut, bytes(flipped), head.decode("latin-1").encode("utf-16")[:HEAD_BYTES]]


def test_every_format_says_what_it_is_in_words_of_people():
    for one in registry.OURS:
        assert len(one.words.split()) > 1, one.name
        assert one.words[0] != " "
        assert registry.told_of(one.name) == (one.words, one.certainty)


def test_what_the_table_denies_the_format_denies():
    """A line of the table that is too narrow would lose files."""
    chance = random.Random(18)
    agreed = dict.fromkeys((one.name for one in registry.OURS), 0)
    for path in FILES:
        head = path.read_bytes()[:HEAD_BYTES]
        for some in damaged(head, chance) if head else [head]:
            for one in registry.OURS:
                if one.load().recognises(some, path):
                    assert one.may_be(Head(some), path), (one.name, path)
                    agreed[one.name] += 1
    assert all(agreed.values()), [name for name, count in agreed.items() if not count]


def test_names_in_the_table_are_those_of_the_formats():
    assert [one.name for one in registry.OURS] == [one.load().name for one in registry.OURS]


def test_families_are_found_by_the_names_of_their_files():
    for one in registry.OURS:
        family = one.load().family
        if family is None:
            continue
        names = [path.name for path in FILES if family.member(path.name)]
        assert names or one.name == "blktrace"
        assert all(one.names.search(name) for name in [*names, "manifest.json"] if family.member(name))
    assert [one.name for one in registry.families(["sda.blktrace.0"])] == ["blktrace"]


def test_an_import_loads_the_reader_of_its_file_only(tmp_path):
    trace = FIXTURES / "corpus" / "etl" / "stored"
    code = (
        "import sys; from pathlib import Path; from iotrace.capture.importing.traces import import_files;"
        f"import_files([Path({str(trace)!r})], Path({str(tmp_path / 'out.iotrace')!r}));"
        "print(*sys.modules, sep='\\n')"
    )
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout.split()
    )
    readers = {one.point.module: one.name for one in registry.OURS}
    # Volumes of a host are no trace of their own, and the counter logs lie in the same container.
    assert {readers[module] for module in loaded & readers.keys()} == {"etl", "blg", "volumes"}


def example_files():
    page = FORMATS_PAGE.read_text(encoding="utf-8")
    section = page[page.index("## A format in a package of your own") :]
    return dict(re.findall(r"```\w+\n# (\S+)\n(.*?)```", section, re.DOTALL)[:2])


def test_the_example_installs_in_a_fresh_environment_and_its_format_imports(tmp_path):
    source, fresh = tmp_path / "example", tmp_path / "fresh"
    source.mkdir()
    for name, text in example_files().items():
        (source / name).write_text(text, encoding="utf-8")
    venv.create(fresh, with_pip=True)
    python = fresh / "bin" / "python"
    own = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    (found,) = fresh.glob("lib/python*/site-packages")
    # iotrace and what it needs lie where these tests run; nothing is fetched.
    (found / "own.pth").write_text(f"import site; site.addsitedir({str(own)!r})\n", encoding="utf-8")
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation", "--no-deps", source],
        check=True,
        capture_output=True,
    )
    trace = tmp_path / "disk.log"
    trace.write_text("1767225600000000 W 8192 4096 250\n1767225600001500 R 0 512 90\n", encoding="utf-8")
    code = (
        "import sys, json; from iotrace.capture.importing.traces import import_files;"
        "found = import_files([sys.argv[1]], sys.argv[2]);"
        "print(json.dumps([[row[key] for key in ('issued_ns', 'completed_ns', 'op', 'offset_bytes', 'size_bytes')]"
        " for row in found.read('io').to_pylist()] + [found.manifest.sources[0].kind]))"
    )
    done = subprocess.run(
        [python, "-c", code, trace, tmp_path / "out.iotrace"], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == (
        '[[0, 250000, "write", 8192, 4096], [1500000, 1590000, "read", 0, 512], "example"]'
    )


class Point:
    """An entry point whose object is at hand."""

    def __init__(self, name, found):
        self.name, self.value, self.module, self.dist = name, "strange:FORMAT", "strange", None
        self._found = found

    def load(self):
        return self._found


@pytest.fixture
def strange(monkeypatch):
    def install(found, name="strange"):
        one = Entry(Point(name, found), checked=registry._watched)
        monkeypatch.setattr(registry, "installed", lambda: (one,))

    return install


def fail(*_):
    raise KeyError("planted")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (3, "is no format: strange:FORMAT gives int"),
        (Format("strange", fail, fail), "fails when it looks at 'a.txt': KeyError"),
        (Format("strange", lambda *_: True, fail), "fails when it reads '.*a.txt': KeyError"),
    ],
)
def test_a_fault_in_a_package_is_told_as_its_own(strange, found, words, tmp_path):
    strange(found)
    path = tmp_path / "a.txt"
    path.write_text("no trace\n", encoding="utf-8")
    with pytest.raises(IotraceError, match=f"the format 'strange' of the package strange {words}") as told:
        import_files([path], tmp_path / "out.iotrace")
    assert "pip uninstall strange" in told.value.hint
    assert not (tmp_path / "out.iotrace").exists()


def test_a_faulty_package_does_not_stand_in_the_way_of_ours(strange, tmp_path):
    strange(3)
    recording = import_files([FIXTURES / "public" / "msr.csv"], tmp_path / "out.iotrace")
    assert recording.manifest.sources[0].kind == "msr"


def test_no_package_takes_the_name_of_one_of_ours(monkeypatch):
    points = [EntryPoint("msr", "strange:FORMAT", GROUP), EntryPoint("other", "strange:FORMAT", GROUP)]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == GROUP else [])
    assert [one.name for one in registry.installed.__wrapped__()] == ["other"]


def rows_of_what_was_tried():
    """First cells of the table of formats."""
    page = FORMATS_PAGE.read_text(encoding="utf-8")
    table = page[page.index("| format | real files |") :].partition("\n\n")[0]
    return [line.split("|")[1].strip() for line in table.splitlines()[2:]]


def test_every_format_has_its_row_and_no_row_is_without_a_format():
    named = [re.findall(r"`([^`]+)`", cell) for cell in rows_of_what_was_tried()]
    assert all(named), "a row names no format"
    # Tables of I/Os by a mapping are recognised by nothing but the mapping.
    assert {name for names in named for name in names} == {one.name for one in registry.OURS} | {"--map"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x01\x02\x03\x04\x05\x06\x07\x08DUCK" + bytes(200), "a DuckDB database"),
        (
            b"[dd hh:mm:ss.mss],[session_id],[sql_text],[login_name],[wait_info]\r\n00 00:00:01,51,x,y,z\r\n",
            "sp_WhoIsActive",
        ),
    ],
)
def test_what_dbas_hold_and_is_not_read_is_named_with_what_to_bring(tmp_path, data, words):
    path = tmp_path / "brought"
    path.write_bytes(data)
    with pytest.raises(IotraceError, match=words) as refused:
        import_files([path], tmp_path / "out.iotrace")
    assert "file_io_stats" in refused.value.hint or "dm_io_virtual_file_stats" in refused.value.hint
