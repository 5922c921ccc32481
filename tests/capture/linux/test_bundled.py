"""The bundled recording is whole, small, and what its README says."""

from pathlib import Path

import duckdb

from iotrace.schemas import Recording, validate

BUNDLED = Path(__file__).parents[3] / "cli/bundled"
PATH = BUNDLED / "pgbench.iotrace"


def ask(sql):
    database = duckdb.connect()
    for name in ("io", "files", "markers"):
        database.read_parquet(str(PATH / f"{name}.parquet")).create_view(name)
    return database.execute(sql).fetchall()


def test_it_is_whole_and_small():
    assert validate(PATH) == []
    assert sum(file.stat().st_size for file in PATH.iterdir()) <= 3_000_000
    manifest = Recording.open(PATH).manifest
    assert manifest.quality.verdict == "good"
    assert manifest.quality.events_lost == 0
    assert manifest.host.name == "bundled"


def test_the_readme_states_its_size():
    manifest = Recording.open(PATH).manifest
    text = (BUNDLED / "README.md").read_text("utf-8")
    assert f"{manifest.rows['io']:,} rows" in text
    assert f"{sum(file.stat().st_size for file in PATH.iterdir()):,} bytes" in text


def test_roles_layers_and_markers():
    assert ask(
        "SELECT role::TEXT, layer::TEXT FROM io JOIN files USING (file_id) GROUP BY ALL ORDER BY ALL"
    ) == [
        ("data", "block"),
        ("data", "device"),
        ("log", "block"),
        ("log", "device"),
    ]
    assert dict(ask("SELECT kind, count(*) FROM markers GROUP BY kind")) == {"checkpoint": 6, "note": 3}


def test_layers_account_for_the_same_bytes():
    assert ask("""
        SELECT count(*) FROM (
            SELECT file_id, op FROM io WHERE op IN ('read', 'write') GROUP BY ALL
            HAVING sum(size_bytes) FILTER (layer = 'block') <> sum(size_bytes) FILTER (layer = 'device'))
    """) == [(0,)]
