"""How paths, titles and shares are written, the same everywhere."""

import pytest
from rich.cells import cell_len

from iotrace.schemas.text import DASH, beginning, format_share, shortened
from iotrace.schemas.vocabulary import listed

WAL = "/var/tmp/iotrace-bundled/pgwal"
MDF = r"E:\Program Files\Microsoft SQL Server\MSSQL15.PROD\MSSQL\DATA\sales.mdf"


@pytest.mark.parametrize(
    ("path", "most", "shown"),
    [
        (WAL, 30, WAL),
        (WAL, 29, "/var/tmp/…/pgwal"),
        (WAL, 16, "/var/tmp/…/pgwal"),
        (WAL, 15, "/var/…/pgwal"),
        (WAL, 11, "/…/pgwal"),
        (MDF, 49, r"E:\Program Files\Microsoft SQL Server\…\sales.mdf"),
        (MDF, 26, r"E:\…\sales.mdf"),
        (r"\\filer\share\data\b.mdf", 21, r"\\filer\share\…\b.mdf"),
        ("s3://traces/2026-11/night/sql01.iotrace", 30, "s3://traces/…/sql01.iotrace"),
        ("/var/log/" + "x" * 40, 12, "/var…xxxxxxx"),
        ("a note / not a path, with words", 16, "a not…with words"),
    ],
)
def test_the_middle_is_left_out_of_a_path_by_folders(path, most, shown):
    assert shortened(path, most) == shown
    assert len(shown) <= most


@pytest.mark.parametrize("path", ["数据/" * 9, "/数据/数据/数据.mdf", "数据" * 9, "a" * 9 + "数据" * 3])
@pytest.mark.parametrize("most", range(8, 24))
def test_what_is_wide_on_the_screen_fits_too(path, most):
    assert cell_len(shortened(path, most, cell_len)) <= most


def test_a_title_ends_with_a_whole_word():
    assert beginning("PostgreSQL under pgbench: data and log", 34) == "PostgreSQL under pgbench: data…"
    assert beginning("PostgreSQL under pgbench", 24) == "PostgreSQL under pgbench"
    assert beginning("x" * 50, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.1234, "+12.3 %"), (-0.1234, "-12.3 %"), (-0.0001, "+0.0 %"), (121.8, "+12,180.0 %"), (None, DASH)],
)
def test_a_share_is_written_with_a_blank(share, shown):
    assert format_share(share, signed=True) == shown


def test_names_in_a_sentence() -> None:
    names = ["reads", "writes", "flushes"]
    assert [listed(names[:count]) for count in range(4)] == [
        "",
        "reads",
        "reads and writes",
        "reads, writes and flushes",
    ]
