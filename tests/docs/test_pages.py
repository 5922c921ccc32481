"""What the documentation says of links and commands is so."""

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from iotrace.cli.main import app

from .pages import PAGES, ROOT, command_lines, name_of


def anchors(page: Path) -> set[str]:
    """The places in a page that links can name: its headings in the form all Markdown sites give them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        if linked.is_relative_to(ROOT / "docs" / "reference"):
            assert linked.name in reference().PAGES
            continue
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), target


def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_docs", ROOT / "tools" / "build_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_on_the_page_exist_with_their_options(page: Path) -> None:
    for words in command_lines(page):
        command: Any = typer.main.get_command(app)
        rest = list(words)
        while rest and hasattr(command, "commands"):
            if rest[0].startswith("-"):
                break
            assert rest[0] in command.commands, " ".join(words)
            command = command.commands[rest.pop(0)]
        known = {"--help", "--debug", "--install-completion", "--show-completion"}
        known |= {
            name for parameter in command.params for name in [*parameter.opts, *parameter.secondary_opts]
        }
        options = {word.split("=")[0] for word in rest if re.match(r"--?[a-zA-Z]", word)}
        assert options <= known, " ".join(words)


def test_the_reference_holds_every_command_table_and_query() -> None:
    pages = {name: make() for name, make in reference().PAGES.items()}
    for name, command in reference().commands():
        assert f"## iotrace {name}\n" in pages["commands.md"]
        assert command.help, f"iotrace {name} says nothing of itself"
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"iotrace {name} does not explain {parameter.name}"
    for table in ("io", "devices", "files", "counters", "waits", "markers"):
        assert f"## {table}\n" in pages["tables.md"]
    queries = {path.stem for path in (ROOT / "analyze" / "queries").glob("*.sql")}
    assert queries == set(re.findall(r"^## (\w+)$", pages["queries.md"], re.MULTILINE))
    for public in ("Recording", "RecordingWriter", "Sweep", "validate"):
        assert f"## {public}\n" in pages["python.md"]


def test_every_page_is_in_the_site_map() -> None:
    shown = set(re.findall(r'"([\w./-]+\.md)"', (ROOT / "zensical.toml").read_text("utf-8")))
    written = {
        page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page.is_relative_to(ROOT / "docs")
    }
    decisions = {page for page in written if re.match(r"decisions/\d", page)}
    generated = {f"reference/{name}" for name in reference().PAGES}
    generated |= {f"notebooks/{path.stem}.md" for path in (ROOT / "notebooks").glob("*.ipynb")}
    index = {"decisions/README.md": "decisions/index.md"}
    assert shown == {index.get(page, page) for page in written - decisions} | generated


def test_decisions_are_numbered_without_holes_and_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    pages = sorted(path.name for path in folder.glob("0*.md"))
    titles = [(folder / name).read_text("utf-8").partition("\n")[0].removeprefix("# ") for name in pages]
    assert [int(title.partition(". ")[0]) for title in titles] == list(range(1, len(pages) + 1))
    assert [int(name[:4]) for name in pages] == list(range(1, len(pages) + 1))
    listed = (folder / "README.md").read_text("utf-8")
    assert all(
        f"({name}) | {title.partition('. ')[2]} |" in listed
        for name, title in zip(pages, titles, strict=True)
    )


SAYS_HOW_TO_INSTALL = [*PAGES, ROOT / "Containerfile"] + [
    source
    for room in ("analyze", "capture", "cli", "replay", "schemas")
    for source in (ROOT / room).rglob("*.py")
]


def test_nothing_says_to_install_iotrace_by_its_name_alone() -> None:
    """On the public registry that name is another project's, and the package's own not yet anybody's."""
    command = r"""\b(pip|pipx|uv|uv tool)\b[^\n]*\b(add|install)\b[^\n`,;&|]*"""
    by_name = re.compile(command + r"""[\s"']iotrace(?:-storage)?(\[|==|["'\s]|$)""", re.MULTILINE)
    assert by_name.search('pip install --find-links dist "iotrace[analysis]"')
    assert by_name.search("pipx install iotrace-storage")
    assert not by_name.search('pip install "dist/iotrace_storage-1.0.0-cp311-abi3-linux.whl[analysis]"')
    found = {}
    for source in SAYS_HOW_TO_INSTALL:
        told = by_name.search(source.read_text("utf-8").replace("\\\n", " "))
        if told:
            found[str(source.relative_to(ROOT))] = told[0]
    assert not found


def test_files_that_are_named_to_install_are_those_of_this_version() -> None:
    """Wheels by the package's name as the wheel format writes it, and by the systems that wheels are built for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assemble = (ROOT / "tools" / "wheels" / "assemble.py").read_text("utf-8")
    systems = set(re.findall(r'tag="(\w+)"', assemble))
    assert len(systems) == 5
    stem = f"{re.sub('[-_.]+', '_', project['name'])}-{project['version']}-cp311-abi3"
    wheels = {f"{stem}-{system}.whl" for system in systems}
    recorders = {f"iotrace-recorder_{project['version']}_amd64.deb"}
    recorders.add(f"iotrace-recorder-{project['version']}-1.x86_64.rpm")
    told = set(re.findall(r"[\w.-]+\.(?:whl|deb|rpm)\b", (ROOT / "docs" / "install.md").read_text("utf-8")))
    assert told & wheels
    assert told - wheels == recorders
    container = (ROOT / "Containerfile").read_text("utf-8")
    assert f"{stem.replace(project['version'], '${VERSION}')}-manylinux_2_28_$(uname -m).whl" in container
    assert f"VERSION={project['version']} " in container
