"""The tree keeps its promises: packages are listed, rooms stay apart, names do not collide."""

import ast
import graphlib
import re
import subprocess
import tomllib
from datetime import date
from importlib import metadata
from pathlib import Path

import pytest

from iotrace.schemas import distribution

ROOT = Path(__file__).parents[1]
ROOMS = ("schemas", "capture", "replay", "analyze", "cli")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = SETTINGS["project"]
SETUPTOOLS = SETTINGS["tool"]["setuptools"]


def package_folders() -> set[str]:
    return {
        path.parent.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("__init__.py")
    }


def test_every_package_is_listed() -> None:
    assert set(SETUPTOOLS["package-dir"].values()) == package_folders()
    expected = {f"iotrace.{folder.replace('/', '.')}" for folder in package_folders()}
    assert set(SETUPTOOLS["packages"]) == set(SETUPTOOLS["package-dir"]) == expected


@pytest.mark.parametrize("room", ROOMS)
def test_no_rust_folder_shares_the_stem_of_a_python_module(room: str) -> None:
    crates = {path.parent for path in (ROOT / room).rglob("Cargo.toml")}
    assert not [
        crate for crate in crates if crate.with_suffix(".py").exists() or (crate / "__init__.py").exists()
    ]


def test_the_version_is_one() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert distribution.version() == cargo == PROJECT["version"]
    assert f"\nversion: {cargo}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_the_changelog_is_headed_by_this_version() -> None:
    """Newest first, each with its date; above it only what is not released yet, if there is something."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    if headings[0] == "Unreleased":
        headings.pop(0)
        assert re.search(r"^## Unreleased\n\n(?!#)\S", text, re.MULTILINE)
    told = [re.fullmatch(r"(\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)", heading) for heading in headings]
    assert all(told), headings
    versions = [tuple(map(int, one[1].split("."))) for one in told if one]
    dates = [date.fromisoformat(one[2]) for one in told if one]
    assert versions == sorted(set(versions), reverse=True)
    assert dates == sorted(dates, reverse=True)
    assert told[0] is not None
    assert told[0][1] == PROJECT["version"]
    assert f"\ndate-released: {told[0][2]}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_it_is_installed_under_its_own_name_and_runs_as_iotrace() -> None:
    installed = metadata.distribution(PROJECT["name"])
    assert installed.metadata["Name"] == distribution.DISTRIBUTION == PROJECT["name"]
    assert {one.name: one.value for one in installed.entry_points} == {"iotrace": "iotrace.cli.start:main"}
    asks = re.compile(r"""\bmetadata\.\w+\(["']iotrace""")
    assert asks.search('metadata.version("iotrace")')
    sources = [path for folder in (*ROOMS, "tools", "tests") for path in (ROOT / folder).rglob("*.py")]
    assert [path for path in sources if path != Path(__file__) and asks.search(path.read_text("utf-8"))] == []


def test_modules_want_the_same_features_of_every_crate_they_share() -> None:
    """Cargo compiles a crate anew for every set of its features: Arrow was compiled four times once."""
    modules = SETTINGS["tool"]["setuptools-rust"]["ext-modules"]
    variants: dict[str, set[str]] = {}
    for module in modules:
        tree = [
            "cargo",
            "tree",
            "--locked",
            "--offline",
            "--manifest-path",
            module["path"],
            "--edges",
            "normal",
        ]
        command = [*tree, "--prefix", "none", "--no-dedupe", "--format", "{p}|{f}"]
        printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for line in printed.splitlines():
            crate, _, features = line.partition("|")
            variants.setdefault(crate, set()).add(features)
    assert len(variants) > 40
    assert {crate: found for crate, found in variants.items() if len(found) > 1} == {}


def test_pins_record_no_addresses() -> None:
    assert "://" not in (ROOT / "requirements.lock").read_text()


def test_folders_of_tests_are_named_after_packages() -> None:
    """A reader who knows a module's folder knows the folder of its tests."""
    tests = ROOT / "tests"
    folders = {
        path.parent.relative_to(tests).as_posix()
        for room in ROOMS
        for path in (tests / room).rglob("test_*.py")
    }
    # The agent is C#, and queries are SQL: neither is a Python package.
    assert folders - package_folders() - {"capture/agent", "analyze/queries"} == set()


def imports_of(path: Path, modules: set[str]) -> set[str]:
    """The modules that ``path`` imports anywhere, late imports included."""
    name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    package = name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        start = (node.module or "").removeprefix("iotrace.")
        if node.level:
            folder = package.split(".")[: package.count(".") + 2 - node.level]
            start = ".".join([*folder, *([node.module] if node.module else [])])
        for alias in node.names:
            whole = f"{start}.{alias.name}"
            is_native = alias.name.startswith("_")
            target = whole if whole in modules or is_native else start
            found |= {target} & modules
    return found - {name}


def test_no_module_imports_itself_by_a_detour() -> None:
    """A package's ``__init__`` offers what its modules define; that they import from it would be a circle."""
    paths = {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__"): path
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if "agent" not in path.parts
    }
    graph = {name: imports_of(path, set(paths)) for name, path in paths.items()}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle
