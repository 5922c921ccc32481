"""Reading in processes of their own gives what reading here gives."""

import numpy as np

from iotrace.analyze.fleet import describe_fleet, summaries
from iotrace.analyze.fleet.summary import Unread, summarise


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
