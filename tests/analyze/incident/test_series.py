"""How time is cut into slots, at the limits of what there is room for."""

import pytest

from iotrace.analyze.incident.series import slot_length_ns

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("streams", "seconds"),
    [
        # A layer has six million cells, one for each stream in every slot: two slots of a quarter of an hour, or one.
        (3_000_000, 900),
        (3_000_001, 1800),
        (6_000_001, 1800),
    ],
)
def test_of_more_streams_than_there_is_room_for_all_is_one_slot(streams, seconds):
    assert slot_length_ns(1800 * SECOND, streams) == seconds * SECOND


@pytest.mark.parametrize("seconds", [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600])
def test_a_slot_is_the_first_round_time_of_which_a_hundred_thousand_are_enough(seconds):
    assert slot_length_ns(seconds * 100_000 * SECOND) == seconds * SECOND
