"""The report on many hosts: what stays readable however many there are."""

from iotrace.analyze.report.facts import FindingFacts
from iotrace.analyze.report.fleet import findings_of_many


def finding(name, rule, detail, level="warning"):
    return FindingFacts(name, level, rule, f"title of {rule}", detail, "what to do")


def test_a_rule_that_fired_on_many_is_said_once():
    every = [finding(f"sql{number:02}", "too-few-ios", f"{number} reads") for number in range(1, 21)]
    lacks = finding("sql07", "trace-lacks-ios", "3 % less", "invalid")
    same = [finding(f"sql{number:02}", "no-date", "it has no date") for number in (1, 2)]
    found = findings_of_many([*every, *same, lacks])
    assert found[0] == lacks
    assert [(one.name.split(" (")[0], one.rule, one.detail) for one in found[1:]] == [
        ("20 recordings", "too-few-ios", "in sql01 1 reads"),
        ("2 recordings", "no-date", "it has no date"),
    ]
    assert found[1].name.startswith("20 recordings (sql01, sql02, ")
