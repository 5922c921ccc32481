"""What a user may call a device, and what is refused."""

import os
from pathlib import Path

import pytest

from iotrace.capture.linux import record
from iotrace.capture.linux.devices import select
from iotrace.schemas import IotraceError

pytestmark = pytest.mark.skipif(not Path("/sys/dev/block").is_dir(), reason="Linux only")


def backed_by_a_disk(path):
    return os.major(path.stat().st_dev) != 0


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("/dev/no-such-disk", "no device '/dev/no-such-disk': No such file or directory", "lsblk"),
        ("/dev/null", "'/dev/null' is a character device, not a block device", "lsblk"),
        ("/proc", "no block device lies behind '/proc' (proc)", "name a disk"),
    ],
)
def test_words_that_are_no_device(word, message, hint, tmp_path):
    with pytest.raises(IotraceError) as raised:
        record([word], tmp_path / "x.iotrace", seconds=1)
    assert raised.value.message == message
    assert hint in raised.value.hint
    assert not list(tmp_path.iterdir())


def test_no_word_at_all(tmp_path):
    with pytest.raises(IotraceError, match="no device to record"):
        record([], tmp_path / "x.iotrace", seconds=1)


def test_a_path_means_the_device_beneath_it(tmp_path):
    if not backed_by_a_disk(tmp_path):
        pytest.skip("the temporary folder is not on a block device")
    number = tmp_path.stat().st_dev
    found = select([str(tmp_path)]).words[str(tmp_path)]
    assert found.number == os.major(number) << 20 | os.minor(number)


def test_roles_are_known_words_for_recorded_devices(tmp_path):
    if not backed_by_a_disk(tmp_path):
        pytest.skip("the temporary folder is not on a block device")
    here = str(tmp_path)
    with pytest.raises(IotraceError, match="'heap' is no role"):
        select([here], {here: "heap"})
    with pytest.raises(IotraceError, match="lie on one disk"):
        select([here], {here: "data", str(tmp_path / ".."): "log"})
