"""Objectives are read as people write them, and errors name the user's words."""

import pytest

from iotrace.analyze import slo
from iotrace.schemas import IotraceError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p99<15ms", slo.Objective(0.99, 15_000_000)),
        ("p99.9 < 1s", slo.Objective(0.999, 1_000_000_000)),
        ("P50<=250us", slo.Objective(0.5, 250_000)),
        ("p50<250µs", slo.Objective(0.5, 250_000)),
        ("p50<250\N{GREEK SMALL LETTER MU}s", slo.Objective(0.5, 250_000)),
        ("p50<800ns", slo.Objective(0.5, 800)),
        ("read p95<5ms", slo.Objective(0.95, 5_000_000, None, "read")),
        ("log write p99<2.5ms", slo.Objective(0.99, 2_500_000, "log", "write")),
        ("tempdb data reads p99<20ms", slo.Objective(0.99, 20_000_000, "tempdb_data", "read")),
        ("tempdb_log p99<20ms", slo.Objective(0.99, 20_000_000, "tempdb_log", None)),
    ],
)
def test_one_clause(text, expected):
    assert slo.parse(text) == (expected,)


def test_list_keeps_its_order():
    objectives = slo.parse("read p95<5ms, log write p99<2ms")
    assert [str(objective) for objective in objectives] == ["read p95<5ms", "log write p99<2ms"]
    assert objectives[1].subject == "p99 response of log writes"
    assert [one.ops for one in (*objectives, *slo.parse("p99<1ms"))] == [
        ("read",),
        ("write",),
        ("read", "write"),
    ]


def test_text_of_an_objective_reads_back():
    for text in ("p99<15ms", "log write p99.9<1.5s", "p50<250us"):
        assert str(slo.parse(text)[0]) == text
        assert slo.parse(str(slo.parse(text)[0])) == slo.parse(text)


@pytest.mark.parametrize(
    ("typed", "shown"), [("15ms", "15 ms"), ("2.5s", "2.5 s"), ("250us", "250 µs"), ("0.5ms", "500 µs")]
)
def test_a_limit_is_shown_in_its_own_unit(typed, shown):
    assert slo.parse(f"p99<{typed}")[0].limit_text == shown


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "no objective in ''"),
        ("fast", "cannot read the objective 'fast'"),
        ("p99<15", "cannot read the objective 'p99<15'"),
        ("p99>15ms", "cannot read the objective 'p99>15ms'"),
        ("p0<15ms", "is not a percentile"),
        ("p99<0ms", "not above zero"),
        ("journal write p99<2ms", "'journal' in 'journal write p99<2ms'"),
        ("read p95<5ms, log p99", "'log p99' in 'read p95<5ms, log p99'"),
    ],
)
def test_bad_input_names_the_users_text(text, named):
    with pytest.raises(IotraceError) as problem:
        slo.parse(text)
    assert named in problem.value.message
    assert problem.value.hint
