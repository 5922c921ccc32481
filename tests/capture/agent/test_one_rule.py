"""Rules that the agent and the rest of the project both state, held to one text."""

import re
import textwrap
from pathlib import Path

import pytest

from iotrace.capture.plan import PlanOptions
from iotrace.capture.plan.writing import make_plan
from iotrace.capture.roles import classify

ROOT = Path(__file__).parents[3]
ROLES = ROOT / "tests" / "fixtures" / "roles" / "windows.tsv"
STATEMENTS = ROOT / "capture" / "agent" / "src" / "SqlServer" / "SessionStatements.cs"


@pytest.mark.parametrize("line", ROLES.read_text().splitlines())
def test_a_file_has_the_role_that_the_live_view_of_the_agent_shows(line: str) -> None:
    """The agent's own test reads the same lines."""
    path, role = line.split("\t")
    assert classify(path)[0].value == role


def test_the_agent_asks_a_sql_server_what_the_check_of_a_plan_asks() -> None:
    plan = (
        make_plan(PlanOptions(layers=("sql",)), "iotrace_0a1b2c").files["sql/check.sql"].decode("utf-8-sig")
    )
    asked = (
        plan.replace("\r\n", "\n").split("\n", 1)[1].rsplit(";", 1)[0].replace("N'iotrace_0a1b2c'", "@name")
    )
    (facts,) = re.findall(r'string Facts = """\n(.*?)\n *""";', STATEMENTS.read_text(), re.DOTALL)
    agents = textwrap.dedent(facts)
    assert agents.startswith(asked + ",\n")
    # One thing more: where the server keeps its log, and with it the events.
    assert agents[len(asked) :].count(" AS ") == 1
