"""A run that is to skip nothing fails when a test was skipped that may not be."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytest_plugins = ["pytester"]


@pytest.mark.parametrize(
    ("reason", "status", "workers"),
    [
        ("fio is not installed", 1, ["-n", "1"]),
        ("tracefs is not mounted", 1, []),
        ("as long as you like", 1, []),
        ("no /srv/shared/samples/etl/a.etl", 0, ["-n", "1"]),
    ],
)
def test_a_skip_that_is_not_allowed_fails_the_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, reason: str, status: int, workers: list[str]
) -> None:
    package = pytester.mkpydir("tests")
    for name in ("conftest.py", "same_digits.py", "skips.py", "hostile_names.py"):
        (package / name).write_bytes((ROOT / "tests" / name).read_bytes())
    (package / "test_one.py").write_text(f"import pytest\n\ndef test_it():\n    pytest.skip({reason!r})\n")
    monkeypatch.setenv("IOTRACE_NO_SKIPS", "1")
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--import-mode=importlib", *workers)
    assert done.ret == status
    assert (reason in done.stdout.str().partition("not allowed to be")[2]) == bool(status)
