"""Time zones in logs, held to the IANA database: a moment is right, or it is said not to be known.

Logs with ICT were placed 7 hours off, with -05 almost 5 hours, with China's CST 14 hours, each "to about a minute":
unknown names were taken for UTC, and "-05" for five minutes.
"""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest

from iotrace.capture.clocks.zones import ABBREVIATIONS, check_timezone, moment, seconds_east, settled_ns
from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError

SUMMER, WINTER = datetime(2019, 7, 5, 9, 55, 26), datetime(2019, 1, 5, 9, 55, 26)  # noqa: DTZ001


@pytest.fixture(scope="module")
def meanings():
    """What the database says: abbreviation → offsets in hours that any place had under it since 2000."""
    found: dict[str, set[float]] = {}
    moments = [datetime(2000, 1, 1, tzinfo=UTC) + timedelta(days=31 * n) for n in range(12 * 27)]
    for name in available_timezones():
        zone = ZoneInfo(name)
        for at in moments:
            local = at.astimezone(zone)
            offset = local.utcoffset()
            assert offset is not None
            found.setdefault(str(local.tzname()), set()).add(offset.total_seconds() / 3600)
    return found


def test_abbreviations_are_those_that_mean_one_thing(meanings):
    for word, hours in ABBREVIATIONS.items():
        if word not in {"Z", "UT", "UCT"}:
            assert meanings[word] == {hours}, word


AMBIGUOUS = [
    "CST",
    "CDT",
    "IST",
    "BST",
    "EST",
    "EDT",
    "PST",
    "AST",
    "ADT",
    "MST",
    "SST",
    "GST",
    "ECT",
    "AMT",
    "ACT",
    "ICT",
    "SGT",
    "MSK",
    "KST",
    "WAST",
    "ART",
    "BRT",
    "CLT",
    "WST",
    "A",
    "M",
    "Y",
    "Local",
]


@pytest.mark.parametrize(
    "word", [*AMBIGUOUS, "China Standard Time", "Eastern", "Nowhere/Land", "", "+", "5", "+25"]
)
def test_what_may_mean_several_or_nothing_is_unknown(word):
    assert seconds_east(word, SUMMER) is None
    found = moment(SUMMER, word)
    assert found is not None
    assert found.zone == word


@pytest.mark.parametrize(
    ("word", "hours"),
    [
        ("-05", -5), ("-5", -5), ("+07", 7), ("+0530", 5.5), ("+05:30", 5.5), ("UTC+5:30", 5.5), ("UTC-3", -3),
        ("GMT+01:00", 1), ("GMT-0330", -3.5), ("UTC+0", 0), ("-0000", 0), ("+1400", 14), ("-1200", -12),
        ("+0545", 5.75),
        ("utc", 0), ("gmt", 0), ("Z", 0), ("z", 0), ("UTC \N{MINUS SIGN}5", -5),
        ("+1245", 12.75), ("-0930", -9.5), ("UT+2", 2),
    ],
)  # fmt: skip
def test_offsets(word, hours):
    assert seconds_east(word, SUMMER) == hours * 3600


@pytest.mark.parametrize("word", ["+1500", "-1300", "+0560", "-05:99", "+5:3"])
def test_offsets_that_no_place_has_are_unknown(word):
    assert seconds_east(word, SUMMER) is None


PLACES = [
    "Europe/Berlin", "europe/london", "America/New_York", "America/Chicago", "Asia/Shanghai", "Asia/Bangkok",
    "Asia/Kolkata", "Asia/Kathmandu", "Australia/Sydney", "America/St_Johns", "America/Sao_Paulo", "Etc/GMT+5",
    "Pacific/Chatham", "Africa/Casablanca", "Asia/Tehran", "US/Eastern",
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("local", [SUMMER, WINTER])
def test_places(place, local):
    name = next(name for name in available_timezones() if name.casefold() == place.casefold())
    offset = local.replace(tzinfo=ZoneInfo(name)).utcoffset()
    assert timedelta(seconds=seconds_east(place, local)) == offset


def test_the_hour_that_clocks_go_through_twice_is_not_known():
    twice = datetime(2019, 10, 27, 2, 30)  # noqa: DTZ001
    assert seconds_east("Europe/Berlin", twice) is None
    assert seconds_east("CEST", twice) == 2 * 3600
    assert settled_ns(int(twice.replace(tzinfo=UTC).timestamp()) * 10**9, "Europe/Berlin") is None


@pytest.mark.parametrize("word", ["Asia/Shanghai", "asia/shanghai", "Singapore", "+08", "CEST", "UTC"])
def test_what_the_user_may_name(word):
    check_timezone(word)


@pytest.mark.parametrize("word", ["CST", "EST", "China", "Asia/Peking", "+99", ""])
def test_what_the_user_may_not_name(word):
    with pytest.raises(IotraceError, match="is not a time zone") as told:
        check_timezone(word)
    assert "Asia/Shanghai" in told.value.hint


LOG = """Hammerdb Log @ Fri Jul 05 09:55:26 {zone} 2019
Vuser 1:Beginning rampup time of 2 minutes
Vuser 1:Rampup complete, Taking start Transaction Count.
Vuser 1:Timing test period of 5 in minutes
Vuser 1:4 Active Virtual Users configured
Vuser 1:TEST RESULT : System achieved 111 NOPM from 222 SQL Server TPM
"""


def imported(tmp_path, zone, **options):
    path = tmp_path / "hammerdb.log"
    path.write_text(LOG.format(zone=zone))
    return import_files([path], tmp_path / "out.iotrace", overwrite=True, **options).manifest


@pytest.mark.parametrize(
    ("zone", "hours"),
    [("CEST", 2), ("-05", -5), ("+0530", 5.5), ("UTC", 0), ("AEST", 10), ("Asia/Bangkok", 7)],
)
def test_a_log_is_placed_by_its_zone(tmp_path, zone, hours):
    start = datetime(2019, 7, 5, 9, 57, 26, tzinfo=UTC) - timedelta(hours=hours)
    assert imported(tmp_path, zone).clock.start_utc_ns == int(start.timestamp()) * 10**9


@pytest.mark.parametrize("zone", ["ICT", "CST", "BST", "IST", "EST", "XYZ"])
def test_a_log_whose_zone_is_not_known_asks_for_it(tmp_path, zone):
    manifest = imported(tmp_path, zone)
    (note,) = [note for note in manifest.quality.notes if "--timezone" in note]
    assert f"'{zone}'" in note
    assert manifest.clock.start_utc_ns == 0
    assert not any("about a minute" in note for note in manifest.quality.notes)
    told = imported(tmp_path, zone, timezone="Asia/Shanghai")
    assert told.clock.start_utc_ns == int(datetime(2019, 7, 5, 1, 57, 26, tzinfo=UTC).timestamp()) * 10**9
    assert any("taken as Asia/Shanghai" in note for note in told.quality.notes)
    assert any("about a minute" in note for note in told.quality.notes)


def test_a_zone_that_is_known_is_not_overruled(tmp_path):
    assert imported(tmp_path, "CEST").clock == imported(tmp_path, "CEST", timezone="Asia/Shanghai").clock
