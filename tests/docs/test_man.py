"""Manual pages come from the commands, and groff has nothing to say against them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture(scope="module")
def made():
    sys.path.insert(0, str(TOOLS))
    try:
        import build_docs
        import build_man
    finally:
        sys.path.remove(str(TOOLS))
    return build_man.pages(), dict(build_docs.commands())


def test_every_command_has_a_page_with_its_options(made):
    pages, commands = made
    assert len(pages) == len(commands) + 1
    for name, command in commands.items():
        page = pages[f"iotrace-{name.replace(' ', '-')}.1"].replace("\\-", "-")
        options = {word for one in command.params for word in one.opts if not getattr(one, "hidden", False)}
        assert {word for word in options if word.startswith("-")} <= set(
            re.findall(r"(?<![\w-])--?[\w-]+", page)
        )


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_warns_of_nothing(made):
    pages, _ = made
    done = subprocess.run(
        ["groff", "-man", "-K", "utf8", "-T", "utf8", "-w", "w", "-z"],
        input="\n".join(pages.values()), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
