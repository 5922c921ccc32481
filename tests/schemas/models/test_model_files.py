"""Model files: what they may say, and what is refused by name."""

import pytest

from iotrace.schemas import IotraceError
from iotrace.schemas.models import example, is_model_target, parse_model

DISK = "[[disk]]\n[[disk.limit]]\niops = 100\n"


def test_the_example_is_read_as_it_stands():
    model = parse_model(example(), "example.toml")
    assert [disk.name for disk in model.disks] == ["data", "log"]
    assert model.machine is not None


def test_a_disk_like_one_of_the_catalogue_has_its_limits_and_what_is_said_otherwise():
    (disk,) = parse_model('[[disk]]\nlike = "azure/P30"\ncount = 3\n', "f.toml").disks
    assert (disk.limits[0].iops, disk.count) == (5000, 3)


@pytest.mark.parametrize(
    ("toml", "word"),
    [
        ("", "no \\[\\[disk\\]\\]"),
        ("[[disk]]\nspeed = 3\n", "disk 1: speed"),
        ("[[disk]]\n[[disk.limit]]\niops = -1\n", "disk 1: limit 1: iops"),
        ("[[disk]]\n[[disk.limit]]\nunit_kib = 8\n", "limits nothing"),
        (DISK + "burst_iops = 200\n", "how long its burst lasts"),
        (DISK + "burst_iops = 50\nburst_seconds = 1\n", "burst_iops = 50"),
        (DISK + "slice_ms = 100\nunit_kib = 8\n", "neither bursts nor units"),
        (DISK + DISK, "several disks without roles"),
        ('[[disk]]\nroles = ["log"]\n', "every disk has roles"),
        (DISK + '[[disk]]\nroles = ["log"]\n[[disk]]\nroles = ["log"]\n', "takes the role log"),
        ('[[disk]]\nroles = ["logs"]\n', "disk 1: roles"),
        ("[[disk]]\n[disk.stall]\nms = 3\n", "never happens"),
        ("[[disk]]\n[disk.service]\nseek_min_ms = 1\n", "only some of"),
        ("[[disk\n", "is not TOML"),
        ("[[disk]]\ncount = " + "1" * 5000, "is not TOML"),
        ("[[disk]]\ncount = 0x" + "f" * 10_000, "count in 'f.toml' is a number of thousands of digits"),
        ("[[disk]]\nname" + ".a" * 40 + " = 1", "more than 32 parts"),
        ("[[disk]]\nname = " + "{a=" * 250 + "1" + "}" * 250, "name in 'f.toml' is a table"),
        ("[[disk]]\n[[disk.limit]]\niops = nan\n", "iops in 'f.toml' is nan"),
        ("[[disk]]\n[[disk.limit]]\niops = inf\n", "iops in 'f.toml' is inf"),
    ],
)
def test_nonsense_is_refused_by_its_key(toml, word):
    with pytest.raises(IotraceError, match=word):
        parse_model(toml, "f.toml")


def test_a_model_stands_alone():
    assert is_model_target(["model:azure/P30"])
    assert not is_model_target(["/dev/sdb", "models"])
    with pytest.raises(IotraceError, match="stands for all storage"):
        is_model_target(["model:azure/P30", "/dev/sdb"])
