"""Every file of a few plans, word by word: what changes on somebody's production server changes here, in sight."""

from importlib import resources

import pytest

from .conftest import FIXTURES, VARIANTS, plan_of, text_of

SNAPSHOTS = FIXTURES / "plan"
SAME_IN_EVERY_PLAN = {
    path.name for path in resources.files("iotrace.capture.plan").joinpath("scripts").iterdir()
}
# Checksums of the others, and the version.
NOT_KEPT = {"plan.json"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_plan_is_as_it_was(variant, pytestconfig):
    plan, folder = plan_of(variant), SNAPSHOTS / variant
    kept = {path: text_of(plan, path) for path in plan.files if path not in SAME_IN_EVERY_PLAN | NOT_KEPT}
    if pytestconfig.getoption("renew_plans"):
        for path, text in kept.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, "utf-8")
    found = {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert kept.keys() == found.keys()
    for path, text in kept.items():
        assert text == found[path], path


@pytest.mark.parametrize("name", sorted(SAME_IN_EVERY_PLAN))
def test_the_other_scripts_are_the_same_in_every_plan_but_for_checksums(plan, name):
    written = resources.files("iotrace.capture.plan").joinpath("scripts", name).read_text("utf-8")
    head, mark, rest = written.partition("# {{ own folder }}\n")
    text = text_of(plan, name)
    assert text.startswith(head)
    assert text.endswith(rest)
    assert bool(mark) == (len(text) > len(written))
