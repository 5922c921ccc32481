"""The T-SQL of a plan parses, and says what the reader and a busy server need."""

import re

import pytest

from iotrace.capture.formats.windows.dmv_columns import FILE_STATS_COLUMNS, IO_WAITS, WAIT_STATS_COLUMNS
from iotrace.capture.plan.writing import Plan

from .conftest import HOSTILE_FOLDER, plan_of, text_of
from .tsql_parser import parse

EVERYTHING = plan_of("everything")
SCRIPTS = [path for path in EVERYTHING.files if path.endswith(".sql")]


@pytest.mark.parametrize(
    "text",
    [
        "CREATE EVENT SESSION [a] ON SERVER ADD EVNT x.y;",
        "CREATE EVENT SESSION [a] ON SERVER ADD EVENT x.y (ACTIONS (p.q));",
        "CREATE EVENT SESSION [a] ON SERVER ADD EVENT x.y (WHERE (duration >= ));",
        "CREATE EVENT SESSION [a] ON SERVER ADD EVENT x.y WITH (MAX_MEMORY = 64 GB);",
        "CREATE EVENT SESSION [a] ON SERVER ADD EVENT x.y WITH (EVENT_RETENTION_MODE = SOME_EVENT_LOSS);",
        "CREATE EVENT SESSION [a] ON SERVER ADD EVENT x.y ADD TARGET p.f (SET filename = N'a'b');",
        "ALTER EVENT SESSION [a] ON SERVER STATE = GO_ON;",
        "SELECT FROM WHERE;",
    ],
)
def test_the_parser_refuses_what_is_not_tsql(text):
    with pytest.raises(AssertionError):
        parse(text)


@pytest.mark.parametrize("path", SCRIPTS)
def test_every_script_parses(path):
    assert parse(text_of(EVERYTHING, path)).raw == text_of(EVERYTHING, path)


def statements(plan: Plan) -> list[str]:
    tree = parse(text_of(plan, "sql/create-session.sql"))
    return [statement.raw for statement in tree.recursive_crawl("event_session_statement")]


def test_every_event_carries_its_sequence():
    text = text_of(EVERYTHING, "sql/create-session.sql")
    events = re.findall(r"ADD EVENT [\w.]+ \(\s*((?:SET [\w = ()]+? )?)(\w+) \(([\w.]+)\)", text)
    assert len(events) == text.count("ADD EVENT") == 2 + 2 * 2 + 3 + 1
    assert {(action, name) for _, action, name in events} == {("ACTION", "package0.event_sequence")}


def test_the_server_never_waits_for_the_session_and_disk_is_bounded():
    create = statements(EVERYTHING)[0]
    assert "NO_EVENT_LOSS" not in create
    assert "EVENT_RETENTION_MODE = ALLOW_MULTIPLE_EVENT_LOSS" in create
    assert "STARTUP_STATE = OFF" in create
    size, files = (int(found) for found in re.search(r"size = \((\d+)\),\s+\w+ = \((\d+)\)", create).groups())
    assert size * files == EVERYTHING.budget.limit_mib("sql")


def test_the_folder_is_one_literal_whatever_it_holds():
    (literal,) = (
        leaf.raw
        for leaf in parse(text_of(EVERYTHING, "sql/create-session.sql")).raw_segments
        if "sql.xel" in leaf.raw
    )
    assert literal.startswith("N'")
    assert literal.endswith("'")
    assert literal[2:-1].replace("''", "'") == HOSTILE_FOLDER + "\\sql\\sql.xel"


def test_the_statement_for_waits_is_tsql_once_numbers_are_in():
    text = text_of(EVERYTHING, "sql/create-session.sql")
    pieces = re.search(r"@statement nvarchar\(max\) = N'(.*?)' \+ STUFF.*? \+ N'(.*?)';\n", text, re.DOTALL)
    statement = pieces[1] + "wait_type = 66 OR wait_type = 182" + pieces[2]
    (parsed,) = parse(statement).recursive_crawl("event_session_statement")
    assert "opcode = 1 AND duration >= 1 AND (wait_type = 66 OR wait_type = 182)" in parsed.raw


def test_only_waits_for_io_are_recorded():
    text = text_of(EVERYTHING, "sql/create-session.sql")
    names = re.search(r"map_value IN \((.*?)\)", text, re.DOTALL)[1]
    assert re.findall(r"N'(\w+)'", names) == list(IO_WAITS)


@pytest.mark.parametrize(
    ("path", "columns"),
    [
        ("sql/file-stats.sql", FILE_STATS_COLUMNS),
        ("sql/file-stats-2012.sql", FILE_STATS_COLUMNS),
        ("sql/wait-stats.sql", WAIT_STATS_COLUMNS),
    ],
)
def test_snapshots_have_the_columns_the_reader_knows(path, columns):
    tree = parse(text_of(EVERYTHING, path))
    (clause,) = tree.recursive_crawl("select_clause")
    elements = clause.recursive_crawl("select_clause_element")
    names = [[leaf.raw for leaf in element.raw_segments if leaf.is_code][-1] for element in elements]
    assert tuple(names) == columns


def test_sql_server_2012_is_not_asked_for_what_came_with_2014():
    text = text_of(EVERYTHING, "sql/file-stats-2012.sql")
    assert "v.io_stall_queued" not in text


@pytest.mark.parametrize("variant", ["default", "everything", "sql-only"])
def test_what_a_plan_starts_it_also_stops_and_drops(variant):
    plan = plan_of(variant)
    name = f"[{plan.name}]"
    assert f"ALTER EVENT SESSION {name} ON SERVER STATE = START" in text_of(plan, "sql/start-session.sql")
    assert f"ALTER EVENT SESSION {name} ON SERVER STATE = STOP" in text_of(plan, "sql/stop-session.sql")
    assert f"DROP EVENT SESSION {name} ON SERVER" in text_of(plan, "sql/drop-session.sql")
