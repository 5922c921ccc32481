"""What an answer says of whether to trust it."""

from iotrace.analyze.present.trust import trust
from iotrace.analyze.validity import Finding
from iotrace.schemas import Quality


def test_a_flaw_is_named_where_it_is_said_that_there_is_one() -> None:
    cache = Finding("small-footprint", "warning", "the footprint may fit the storage's own cache", "", "")
    (said,) = trust(Quality(sequence_holes=2).judge(1000), [cache])
    assert said.text == (
        "Trust: recorded with flaws (2 holes in the buffer sequence), but the footprint may fit the storage's own cache"
    )
