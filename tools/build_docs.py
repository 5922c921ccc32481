"""Builds the documentation site: the pages of docs/ and a reference drawn from the code, into build/site.

    .venv/bin/python tools/build_docs.py

The reference (commands, tables, queries, Python) is written anew each time and never committed, so it cannot be out of
date. Links that lead out of docs/ are turned into plain words: the site stands by itself, offline.
"""

import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from iotrace import schemas
from iotrace.analyze import library
from iotrace.cli.main import app
from iotrace.schemas.tables import language_neutral

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "build" / "docs"


def commands_page() -> str:
    """Every command with its words, as the command line itself knows them."""
    parts = [
        "# Commands",
        "Every command takes `--help` and `--debug`. Data goes to stdout, words to stderr.",
    ]
    for name, command in commands():
        parts += [f"## iotrace {name}", "```\n" + usage(name, command) + "\n```", prose(command.help or "")]
        rows = [row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
        if rows:
            parts.append("\n".join(["| option | default | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def commands(group: TyperGroup | None = None, prefix: str = "") -> Iterator[tuple[str, TyperCommand]]:
    """Each command's full name and the command, groups walked through."""
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield prefix + name, command


def usage(name: str, command: TyperCommand) -> str:
    """The command's usage on one line."""
    words = [
        parameter.metavar or parameter.name.upper() for parameter in command.params if is_word(parameter)
    ]
    return " ".join(["iotrace", name, *words, "[OPTIONS]"])


def is_word(parameter: TyperArgument | TyperOption) -> bool:
    """Whether it is given by its place and not by its name."""
    return not parameter.opts[0].startswith("-")


def row(parameter: TyperArgument | TyperOption) -> str:
    """One line of a command's table: words, default, meaning."""
    names = [parameter.name.upper()] if is_word(parameter) else [*parameter.opts, *parameter.secondary_opts]
    default = parameter.default
    shown = isinstance(default, int | float | str) and not isinstance(default, bool)
    about = parameter.show_default if isinstance(parameter.show_default, str) else default if shown else ""
    if parameter.required:
        about = "required"
    help_text = " ".join((parameter.help or "").split())
    return f"| {', '.join(f'`{cell(name)}`' for name in names)} | {cell(str(about))} | {cell(help_text)} |"


def cell(text: str) -> str:
    """Text that stays within its cell."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def prose(text: str) -> str:
    """A command's help, its examples as code."""
    parts = re.split(r"\n\n|\n(?=Example)", inspect.cleandoc(text))
    shown = []
    for part in parts:
        example = re.fullmatch(r"Examples?:\s*(.+)", part, re.DOTALL)
        shown.append(
            "```\n" + inspect.cleandoc(example[1]) + "\n```" if example else part.replace("<", "&lt;")
        )
    return "\n\n".join(shown)


def tables_page() -> str:
    """Every table of a recording, from the schema file."""
    facts = language_neutral()
    parts = [
        "# Tables of a recording",
        "A recording is a folder of Parquet files, one table each, and a manifest.",
    ]
    parts.append("Times are nanoseconds since the recording's start, on one monotonic clock.")
    for name, columns in facts["tables"].items():
        rows = [
            f"| `{column['name']}` | {cell(str(column['type']))}{'' if column['nullable'] else ', always there'} "
            f"| {cell(column.get('meaning', ''))} |"
            for column in columns
        ]
        parts += [f"## {name}", "\n".join(["| column | type | meaning |", "|---|---|---|", *rows])]
    words = [f"- `{name}`: {', '.join(entries)}" for name, entries in facts["words"].items()]
    parts += ["## Words", "\n".join(words)]
    return "\n\n".join(parts) + "\n"


def queries_page() -> str:
    """The query library, from the heads of its files."""
    parts = ["# Query library", "`iotrace query RECORDING NAME KEY=VALUE…` runs one; `--list` lists them."]
    for query in library.list_queries():
        parts += [f"## {query.name}", cell(query.question)]
        rows = [
            f"| `{column.name}` | {cell(column.unit)} | {cell(column.meaning)} |" for column in query.columns
        ]
        rows += [
            f"| `${word.name}` | {cell(word.unit)} | {cell(word.meaning)} |" for word in query.parameters
        ]
        parts.append("\n".join(["| column or parameter | unit | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def python_page() -> str:
    """The public names of `iotrace.schemas`, from their docstrings."""
    parts = ["# Python", "All public names of `iotrace.schemas`. [Examples](../python.md)."]
    for name in schemas.__all__:
        thing = getattr(schemas, name)
        own_words = not isinstance(thing, dict)
        parts += [f"## {name}", docstring(thing) if own_words else "A dictionary: see [tables](tables.md)."]
        if inspect.isclass(thing):
            for attribute, member in vars(thing).items():
                parts += member_lines(attribute, member)
        elif callable(thing):
            parts.insert(-1, f"```python\n{name}{inspect.signature(thing)}\n```")
    return "\n\n".join(parts) + "\n"


def member_lines(name: str, member: object) -> list[str]:
    """A method or property of a class, with its signature."""
    function = getattr(member, "__func__", member)
    if name.startswith("_") or not (inspect.isfunction(function) or isinstance(member, property)):
        return []
    signature = "" if isinstance(member, property) else str(inspect.signature(function))
    return [f"### {name}", f"```python\n{name}{signature}\n```", docstring(member)]


def docstring(thing: object) -> str:
    """Its docstring in Markdown."""
    text = (inspect.getdoc(thing) or "").replace("``", "`")
    return text.replace("<", "&lt;")


def keep_links_inside(text: str, page: Path) -> str:
    """Words instead of links to what is not part of the site."""

    def inside(match: re.Match[str]) -> str:
        target = match[2].split("#")[0]
        if not target or "://" in target or (page.parent / target).resolve().is_relative_to(ROOT / "docs"):
            return match[0]
        return match[1]

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", inside, text)


PAGES = {
    "commands.md": commands_page,
    "tables.md": tables_page,
    "queries.md": queries_page,
    "python.md": python_page,
}


def write_source() -> None:
    """Everything the site is made of, into build/docs."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    for page in sorted((ROOT / "docs").rglob("*")):
        copy = SOURCE / page.relative_to(ROOT / "docs")
        if page.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
        elif page.suffix == ".md":
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(keep_links_inside(page.read_text("utf-8"), page), "utf-8")
        else:
            shutil.copy2(page, copy)
    decisions = SOURCE / "decisions"
    titles = [
        f"- [{page.read_text('utf-8').splitlines()[0].lstrip('# ')}]({page.name})"
        for page in sorted(decisions.glob("0*.md"))
    ]
    index = (decisions / "README.md").read_text("utf-8") + "\n" + "\n".join(titles) + "\n"
    (decisions / "README.md").unlink()
    (decisions / "index.md").write_text(index, "utf-8")
    (SOURCE / "reference").mkdir(exist_ok=True)
    for name, page_of in PAGES.items():
        (SOURCE / "reference" / name).write_text(page_of(), "utf-8")


def main() -> None:
    """Write the source, run the notebooks, and have Zensical make the site of it; a broken link fails the build."""
    write_source()
    notebooks = Path(__file__).with_name("notebook_pages.py")
    subprocess.run([sys.executable, notebooks, SOURCE / "notebooks"], check=True)
    zensical = Path(sys.executable).with_name("zensical")
    subprocess.run(
        [zensical, "build", "--clean", "--strict", "--config-file", ROOT / "zensical.toml"], check=True
    )


if __name__ == "__main__":
    main()
