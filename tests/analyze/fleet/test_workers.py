"""Reading in processes of their own gives what reading here gives."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from iotrace.analyze.fleet import describe_fleet, read_each, summaries
from iotrace.analyze.fleet.summary import Unread, summarise
from iotrace.schemas import IotraceError


def test_processes_give_what_one_gives_in_the_order_of_the_names(make_recording, tmp_path):
    issued = np.arange(2_000) * 50_000_000
    paths = [
        make_recording({"issued_ns": issued, "completed_ns": issued + took}, window_ns=100_000_000_000).path
        for took in (100_000, 200_000, 300_000)
    ]
    paths.insert(1, tmp_path / "nowhere.iotrace")
    told = []
    found = summaries(paths, told.append)
    assert told == [1, 2, 3, 4]
    assert [one.path for one in found] == [str(path) for path in paths]
    assert isinstance(found[1], Unread)
    assert describe_fleet(found) == describe_fleet([summarise(path) for path in paths])


def goes_wrong_over_the_second(path):
    if path.name == "2":
        raise ZeroDivisionError("division by zero")
    return path.name


def test_a_recording_over_which_iotrace_goes_wrong_costs_the_others_nothing(tmp_path):
    paths = [tmp_path / name for name in "123"]
    first, second, third = read_each(goes_wrong_over_the_second, paths, executor=ThreadPoolExecutor(2))
    assert (first, third) == ("1", "3")
    assert isinstance(second, Unread)
    assert str(paths[1]) in second.problem
    assert "ZeroDivisionError: division by zero" in second.problem


def refuses(path):
    raise IotraceError(f"no command takes '{path}'")


def test_what_a_user_asked_wrongly_is_told_once(tmp_path):
    with pytest.raises(IotraceError, match="no command takes"):
        read_each(refuses, [tmp_path / "1", tmp_path / "2"], executor=ThreadPoolExecutor(2))
