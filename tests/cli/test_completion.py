"""The shell's completion knows commands and options."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tree_sitter_powershell
from tree_sitter import Language, Parser

_SPEC = importlib.util.spec_from_file_location(
    "build_completions", Path(__file__).parents[2] / "tools" / "build_completions.py"
)
completions = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(completions)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("iotrace descr", {"describe"}),
        ("iotrace capture pl", {"plan"}),
        ("iotrace replay --sca", {"--scale"}),
        ("iotrace export --t", {"--to", "--target"}),
    ],
)
def test_bash_completes(typed: str, expected: set[str]) -> None:
    words = {
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
        "_IOTRACE_COMPLETE": "complete_bash",
    }
    done = subprocess.run(
        [sys.executable, "-m", "iotrace.cli"],
        env=os.environ | words,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) >= expected


COMPLETED = [
    ("iotrace descr", "describe"),
    ("iotrace capture pl", "plan"),
    ("iotrace replay --sca", "--scale"),
]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that `make completions` writes."""
    folder = tmp_path_factory.mktemp("completions")
    for shell, name in completions.FILES.items():
        (folder / name).write_text(completions.script(shell))
    return folder


def in_shell(shell: str, code: str, *arguments: str) -> str:
    """What ``code`` prints, where iotrace is on the PATH as it is after an installation."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = [shell, "-c", code, *arguments]
    return subprocess.run(
        command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize(("typed", "expected"), COMPLETED)
def test_bash_completes_by_the_script(scripts: Path, typed: str, expected: str) -> None:
    code = """source "$1"; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _iotrace_completion iotrace; printf '%s\\n' "${COMPREPLY[@]}"; complete -p iotrace"""
    told = in_shell("bash", code, "bash", str(scripts / "iotrace.bash"), typed).splitlines()
    assert expected in told
    assert told[-1].endswith("-F _iotrace_completion iotrace")


@pytest.mark.parametrize(("typed", "expected"), COMPLETED)
def test_zsh_completes_by_the_script_from_its_fpath(scripts: Path, typed: str, expected: str) -> None:
    code = """fpath=($1 $fpath); autoload -Uz compinit; compinit -u -d $1/dump
    [ "${_comps[iotrace]}" = _iotrace ] || exit 3
    function _arguments { print -r -- "$@" }  # what zsh itself would be given to choose from
    words=(${=2}); CURRENT=$#words; _iotrace"""
    assert f'"{expected}"' in in_shell("zsh", code, "zsh", str(scripts), typed).replace("\\-", "-")


@pytest.mark.parametrize(("typed", "expected"), COMPLETED)
def test_fish_completes_by_the_script(scripts: Path, typed: str, expected: str) -> None:
    told = in_shell("fish", f"source {scripts}/iotrace.fish; complete --do-complete '{typed}'")
    assert expected in {line.partition("\t")[0] for line in told.splitlines()}


def test_powershells_script_is_powershell(scripts: Path) -> None:
    tree = Parser(Language(tree_sitter_powershell.language())).parse((scripts / "iotrace.ps1").read_bytes())
    assert not tree.root_node.has_error
    words = {
        "_IOTRACE_COMPLETE": "complete_powershell",
        "_TYPER_COMPLETE_ARGS": "iotrace descr",
        "_TYPER_COMPLETE_WORD_TO_COMPLETE": "descr",
    }
    done = subprocess.run(
        [sys.executable, "-m", "iotrace.cli"],
        env=os.environ | words,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("describe:::")
