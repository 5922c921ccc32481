"""Clocks set back, and files whose lines go back for other reasons."""

import numpy as np
import pytest

from iotrace.capture.clocks.steps_back import StepsBack

SECOND_NS = 10**9


def found(issued_s, took_s=0.002, disk=0, *, batch=97):
    steps = StepsBack()
    issued = np.round(np.asarray(issued_s) * SECOND_NS).astype(np.int64)
    ended = issued + np.round(np.broadcast_to(took_s, issued.shape) * SECOND_NS).astype(np.int64)
    disks = np.broadcast_to(disk, issued.shape)
    for at in range(0, len(issued), batch):
        steps.see(*(column[at : at + batch] for column in (issued, ended, disks)))
    return [(round(at / SECOND_NS), round(by / SECOND_NS)) for at, by in steps.found()]


def arrivals(seconds, seed=1, rate=50):
    return np.sort(np.random.default_rng(seed).uniform(0, seconds, int(seconds * rate)))


@pytest.mark.parametrize("batch", [1, 7, 97, 100_000])
@pytest.mark.parametrize("by_s", [2, 30, 300])
def test_a_clock_set_back_is_found_once(by_s, batch):
    at_s = arrivals(120)
    assert found(np.where(at_s > 60, at_s - by_s, at_s), batch=batch) == [(60, by_s)]


def test_each_of_several_is_found():
    at_s = arrivals(120)
    assert found(at_s - 20 * (at_s > 40) - 30 * (at_s > 80)) == [(40, 20), (60, 30)]


def test_a_step_of_less_than_a_second_is_not_told_from_lines_of_several_threads():
    at_s = arrivals(60)
    assert found(at_s - 0.9 * (at_s > 30)) == []


def test_a_file_in_order_of_completion_has_none_however_long_its_disk_hangs():
    at_s = arrivals(120)
    frozen = (at_s > 50) & (at_s < 80)
    disk = np.arange(len(at_s)) % 2
    took_s = np.where(frozen & (disk == 0), 80 - at_s + 1e-4, 0.002)
    order = np.argsort(at_s + took_s)
    assert found(at_s[order], took_s[order], disk[order]) == []


def test_a_few_lines_that_are_late_are_no_step():
    at_s = arrivals(60)
    order = np.arange(len(at_s))
    late = np.concatenate([np.delete(order, range(100, 110)), []]).astype(int)
    late = np.insert(late, 2000, range(100, 110))
    assert found(at_s[late]) == []


def test_sections_of_disks_that_were_not_there_before_are_no_step():
    at_s = np.concatenate([arrivals(60, seed) for seed in range(3)])
    assert found(at_s, disk=np.repeat([0, 1, 2], 3000)) == []
    assert found(at_s, disk=0) == [(60, 60), (60, 60)]


@pytest.mark.parametrize("order", [slice(None, None, -1), np.random.default_rng(3).permutation(6000)])
def test_a_file_in_another_order_has_none(order):
    assert found(arrivals(120)[order]) == []
