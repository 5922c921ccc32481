"""As many digits of a scale as its interval bears."""

from types import SimpleNamespace

import pytest

from iotrace.analyze.knee import words as knee_words
from iotrace.analyze.knee.estimators import Estimate
from iotrace.analyze.knee.words import (
    _capital,
    _has_ended,
    _level,
    _share_of_limit,
    _small,
    carried_at,
    carried_for_good,
    cause_clause,
    scale_text,
    spent_words,
)


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        (Estimate(3.61, 3.32, 3.93), "3.6x [3.3, 3.9]"),
        (Estimate(1.052, 1.041, 1.063), "1.05x [1.04, 1.06]"),
        (Estimate(36.42, 36.11, 36.73), "36.4x [36.1, 36.7]"),
        (Estimate(36.42, 36.41, 36.43), "36.4x"),
    ],
)
def test_a_scale_has_the_digits_that_its_interval_bears(scale, words):
    assert scale_text(scale) == words


@pytest.mark.parametrize(
    ("medians_ns", "words"),
    [
        ([0, 0], "the model states no latency"),
        ([200_000, 300_000, 400_000], "median response 0.20 ms at the lowest load judged, 0.40 ms there"),
        ([200_000], "median response 0.20 ms"),
        ([], "latency not known"),
    ],
)
def test_the_median_of_the_lowest_load_is_said_with_that_of_the_highest_kept_up(medians_ns, words):
    kept = [SimpleNamespace(is_saturated=False, response_ns={"p50": median}) for median in medians_ns]
    others = [
        SimpleNamespace(is_saturated=True, response_ns={"p50": 9_000_000}),
        SimpleNamespace(is_saturated=False, response_ns={"p50": None}),
    ]
    assert _level([*kept, *others]) == words


@pytest.mark.parametrize(
    ("text", "words"), [("The disk waits", "the disk waits"), ("I/O waits", "I/O waits"), ("", "")]
)
def test_a_sentence_that_goes_on_begins_small(text, words):
    assert _small(text) == words


@pytest.mark.parametrize(
    ("achieved_iops", "is_saturated", "is_carried"),
    [(970, False, True), (969, False, False), (970, True, False)],
)
def test_a_load_is_carried_where_97_percent_of_it_ended_and_nothing_queued_up(
    achieved_iops, is_saturated, is_carried
):
    step = SimpleNamespace(
        littles_law_holds=True, error_count=0, has_few_ios=False, not_together=False, is_steady=True,
        is_warming=False, offered_iops=1000, achieved_iops=achieved_iops, is_saturated=is_saturated,
    )  # fmt: skip
    assert _has_ended(step) is is_carried


@pytest.mark.parametrize(
    ("iops_at_1x", "words"),
    [
        (
            500,
            "1x is 50 % [40, 62] of the load at the knee, a headroom of 2.0x [1.6, 2.5]; 2x would be 100 %",
        ),
        (
            600,
            "1x is 60 % [48, 75] of the load at the knee, a headroom of 1.7x [1.3, 2.1]; 1.5x would be 90 %",
        ),
        (
            900,
            "1x is 90 % [72, 112] of the load at the knee, a headroom of 1.1x [0.9, 1.4]; 2x would be 180 %",
        ),
    ],
)
def test_the_share_of_what_is_carried_has_the_interval_of_that(iops_at_1x, words):
    """Beside it the greatest of 2, 1.5 and 1.2 times the load that is still within; else what 2 times would be."""
    knee = SimpleNamespace(
        objectives=[], onset_iops=None, iops=Estimate(1000, 800, 1250), state="reached", baseline="1x"
    )
    assert _share_of_limit(knee, iops_at_1x) == words


@pytest.mark.parametrize(("iops", "offered"), [(1000, 600), (550, 500), (505, 500), (490, 500)])
def test_what_was_carried_at_a_load_is_of_a_step_that_carried_it_without_credits(iops, offered):
    def step(offered_iops, is_judged=True, is_saturated=False, is_on_credits=False):
        return SimpleNamespace(
            offered_iops=offered_iops, is_judged=is_judged, is_saturated=is_saturated, is_on_credits=is_on_credits
        )  # fmt: skip

    steps = [
        step(400, is_judged=False), step(500), step(600), step(700, is_saturated=True), step(800, is_on_credits=True),
        step(900, is_judged=False),
    ]  # fmt: skip
    assert carried_at(SimpleNamespace(steps=steps), iops).offered_iops == offered


def test_what_is_carried_for_good_is_the_highest_load_below_those_on_credits():
    steps = [
        SimpleNamespace(offered_iops=offered, is_judged=True, is_saturated=False, overspent=overspent)
        for offered, overspent in ((50, []), (100, []), (200, []), (300, ["IOPS"]), (400, []))
    ]
    assert carried_for_good(SimpleNamespace(steps=steps)).offered_iops == 200


@pytest.mark.parametrize(
    ("layers", "words"),
    [((None, "device", "block"), "; device"), ((None, None), "; None 0"), ((), "")],
)
def test_the_cause_that_is_said_is_the_first_that_names_a_layer_else_the_first(layers, words):
    causes = [
        SimpleNamespace(layer=layer, clause=layer or f"None {place}") for place, layer in enumerate(layers)
    ]
    assert cause_clause(SimpleNamespace(causes=causes)) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [("p99 passes 5 ms", "The p99 passes 5 ms"), ("passes 5 ms", "Passes 5 ms"), ("a2 waits", "A2 waits")],
)
def test_a_sentence_begins_large_but_for_the_name_of_a_percentile(text, words):
    assert _capital(text) == words


def test_of_several_limits_the_first_is_named():
    assert "come back (IOPS)" in spent_words(SimpleNamespace(overspent=["IOPS", "bytes per second"]))


@pytest.mark.parametrize(
    ("state", "is_spending", "words"),
    [
        ("reached", True, "1x is carried for good. While they last, the knee is there."),
        ("reached", False, "The knee is there."),
        ("not_judged", True, "The knee is there."),
    ],
)
def test_what_is_carried_for_good_comes_first_where_anything_can_be_judged(
    monkeypatch, state, is_spending, words
):
    monkeypatch.setattr(knee_words, "_where", lambda _: "The knee is there.")
    monkeypatch.setattr(knee_words, "_credits", lambda _: "")
    monkeypatch.setattr(knee_words, "_for_good", lambda *_: "1x is carried for good.")
    steps = [SimpleNamespace(is_judged=True, overspent=["iops"] if is_spending else [])]
    assert knee_words.describe_knee(SimpleNamespace(state=state, steps=steps)) == words


@pytest.mark.parametrize(
    ("share", "objectives", "words"),
    [("a share", [], "a share, and a tail"), ("a share", ["p99<5ms"], "a share"), ("", [], "")],
)
def test_a_long_tail_is_no_headroom_unless_an_objective_has_judged_it(monkeypatch, share, objectives, words):
    monkeypatch.setattr(knee_words, "_share_of_limit", lambda *_: share)
    monkeypatch.setattr(knee_words, "_long_at_top", lambda _: ", and a tail")
    knee = SimpleNamespace(iops_at_1x=500, state="reached", steps=[], objectives=objectives)
    assert knee_words.headroom(knee) == words
