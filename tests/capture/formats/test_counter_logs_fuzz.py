"""Any bytes give rows or a clear error: no crash, no hang, no memory beyond a bound. Seeded, so failures repeat."""

import importlib.util
import random
import struct
import sys
import warnings
from pathlib import Path

import pytest

from iotrace.capture.formats.windows import blg, perfmon_csv
from iotrace.schemas import IotraceError, conform

_SPEC = importlib.util.spec_from_file_location(
    "perfmon_build", Path(__file__).parents[2] / "fixtures" / "perfmon" / "build.py"
)
build = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(build)

EXTREMES = [0, 1, 7, 8, 40, 48, 71, 72, 0xFF, 0xFFFF, 0x10000, 1 << 26, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
MEMORY_MAX_BYTES = 600 << 20
SAMPLES = Path(__file__).parents[4] / "shared" / "samples" / "perfmon"


def silent(*_):
    pass


def everything():
    """A log with every form of record."""
    definitions = [(214, 0x10410400, 4), (208, 0x30020400, 8), (208, 0x40030402, 4), (1402, 0x00550500, 8)]
    entries = [
        build.entry(0x10410400, "PhysicalDisk", "Disk Reads/sec", instance="0 C:"),
        build.entry(0x21510500, "Processor", "% Processor Time", instance="*", kind=1),
        build.entry(0x10, "PhysicalDisk", "*", instance="*", kind=0x10),
    ]
    events = [
        build.event(0x24, build.LOCAL, build.names("\\\\HOST", {234: "PhysicalDisk", 214: "Reads"})),
        build.event(0x20, build.LOCAL, build.catalog(*entries)),
    ]
    for number in range(6):
        clock = build.START_UTC + number * build.SECOND
        body = build.sample(
            build.single(number * 10, number * build.SECOND),
            build.wildcard([(name, number * 10**6, clock) for name in ("0", "1", "_Total")]),
            build.whole_object(
                234,
                definitions,
                [("0 C:", (number, number, number, number)), ("_Total", (1, 2, 3, 4))],
                utc=clock,
            ),
        )
        events += build.split(0x22, build.LOCAL + number * build.SECOND, body, size=300)
    # Small buffers, so that most mutations hit something.
    return build.log(events)[: 65_536 + 72 + sum(len(one) + 8 for one in events)]


def text_log():
    columns = [f"\\\\HOST\\PhysicalDisk({number} C:)\\Disk Reads/sec" for number in range(5)]
    lines = ["(PDH-CSV 4.0) (GMT Standard Time)(0)", *columns]
    text = ",".join(f'"{cell}"' for cell in lines) + "\r\n"
    for second in range(40):
        cells = [f"12/29/2020 18:34:{second:02}.308", *(f"{second * 1.25 + column}" for column in range(5))]
        text += ",".join(f'"{cell}"' for cell in cells) + "\r\n"
    return text.encode()


def mutate(data, random_, binary):
    data = bytearray(data)
    for _ in range(random_.choice([1, 1, 2, 5, 40])):
        at = random_.randrange(len(data))
        match random_.randrange(6):
            case 0:
                data[at] = random_.randrange(256)
            case 1 if binary:
                data[at : at + 4] = struct.pack("<I", random_.choice(EXTREMES))
            case 2 if binary:
                data[at : at + 8] = struct.pack("<q", random_.choice([-1, -(1 << 63), (1 << 63) - 1, 0, 1]))
            case 1 | 2:
                data[at:at] = random_.choice(
                    [b'"', b",", b"\r\n", b'"(PDH-CSV 4.0) (', b"\0", b"1e999", b"\xff\xfe", b"\\\\"]
                )
            case 3 if random_.random() < 0.2:
                del data[at:]
            case 4:
                del data[at : at + random_.randrange(1, 100)]
            case 5:
                data[at:at] = random_.randbytes(random_.randrange(1, 100))
        if not data:
            return b"x"
    return bytes(data)


def read_all(module, path):
    """Everything a caller may ask; how many rows came, or None where the file was refused."""
    try:
        trace = module.read(path, "a", silent)
        rows = 0
        for table_name, batch in trace.batches():
            rows += len(conform(batch, table_name))
        outcome = trace.outcome()
        module.inspect(path, "a")
    except IotraceError as problem:
        is_clear = bool(problem.hint) and "'a'" in problem.message
        return None if is_clear else pytest.fail(f"unclear: {problem.message}")
    assert outcome.window_start_ns <= outcome.window_end_ns
    outcome.quality.judge(0)
    return rows


def peak_bytes():
    try:
        import resource
    except ImportError:  # Windows does not tell
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def fuzz(module, seeds, path, rounds, seed, *, binary):
    random_ = random.Random(seed)
    before = peak_bytes()
    read = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(rounds):
            data = mutate(random_.choice(seeds), random_, binary)
            path.write_bytes(data)
            module.recognises(data[: 1 << 17], path)
            read += bool(read_all(module, path))
    assert read > rounds // 10  # else nothing behind the header was reached
    assert peak_bytes() - before < MEMORY_MAX_BYTES


@pytest.fixture(scope="module")
def binary_seeds():
    """Constructed logs and, where there are samples, their first buffers."""
    logs = [everything()]
    if SAMPLES.is_dir():
        logs += [path.read_bytes()[: 4 * 65_536] for path in sorted(SAMPLES.glob("*.blg"))]
    return logs


def test_mutated_binary_logs(binary_seeds, tmp_path):
    fuzz(blg, binary_seeds, tmp_path / "a.blg", 250, 1, binary=True)


def test_mutated_text_logs(tmp_path):
    fuzz(
        perfmon_csv,
        [text_log(), text_log().decode().encode("utf-16")],
        tmp_path / "a.csv",
        250,
        1,
        binary=False,
    )


def test_every_truncation(tmp_path):
    path = tmp_path / "a"
    binary, text = everything(), text_log()
    for length in range(65_536, len(binary), 53):
        path.write_bytes(binary[:length])
        read_all(blg, path)
    for length in range(1, len(text), 29):
        path.write_bytes(text[:length])
        read_all(perfmon_csv, path)


def test_random_bytes_after_a_good_header(tmp_path):
    random_ = random.Random(6)
    path = tmp_path / "a"
    path.write_bytes(build.log() + random_.randbytes(300_000))
    assert read_all(blg, path) == 0
    path.write_bytes(text_log()[:400] + random_.randbytes(300_000))
    read_all(perfmon_csv, path)


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path):
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.write(text_log())
        for _ in range(80):
            file.write(b"1" * (1 << 20))
    with pytest.raises(IotraceError, match="line of more than 64 MiB"):
        perfmon_csv.read(path, "a", silent)
        list(perfmon_csv.read(path, "a", silent).batches())
