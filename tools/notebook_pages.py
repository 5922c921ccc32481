"""Runs the notebooks and makes a page of each for the documentation site: words, code, what it printed, live figures.

    .venv/bin/python tools/notebook_pages.py FOLDER

The notebooks themselves are kept without outputs, so that a change of one can be read; here is what they come to.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from plotly.offline import get_plotlyjs

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
FIGURE = "application/vnd.plotly.v1+json"
SCRIPT = "plotly.min.js"
_HEIGHT_PX = 460


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with outputs. Raises nbclient's error where a cell fails."""
    book = nbformat.read(path, as_version=4)
    os.environ["PLOTLY_RENDERER"] = "plotly_mimetype"
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(book, timeout=300, kernel_name="python3", resources=resources).execute()
    return book


def page(book: nbformat.NotebookNode) -> str:
    """Markdown of a notebook that has run; figures are drawn by Plotly, which lies beside the page."""
    parts: list[str] = []
    for number, cell in enumerate(book.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        elif cell.cell_type == "code":
            parts.append(f"```python\n{cell.source}\n```")
            parts += [
                shown
                for place, output in enumerate(cell.outputs)
                if (shown := _output(output, f"figure-{number}-{place}"))
            ]
    title, *rest = parts
    return "\n\n".join([title, f'<script src="{SCRIPT}"></script>', *rest]) + "\n"


def _output(output: nbformat.NotebookNode, name: str) -> str:
    if output.output_type == "stream":
        return _fenced(output.text)
    data = output.get("data", {})
    if FIGURE in data:
        figure = data[FIGURE]
        drawn = json.dumps([name, figure["data"], figure["layout"], {"responsive": True}]).replace(
            "</", "<\\/"
        )
        height = figure["layout"].get("height", _HEIGHT_PX)
        return (
            f'<div id="{name}" style="height: {height}px"></div>\n<script>Plotly.newPlot(...{drawn})</script>'
        )
    return _fenced(data["text/plain"]) if "text/plain" in data else ""


def _fenced(text: str) -> str:
    text = text.rstrip("\n")
    return f"````text\n{text}\n````" if text else ""


def write_pages(folder: Path) -> None:
    """A page for each notebook, and Plotly itself, into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCRIPT).write_text(get_plotlyjs(), "utf-8")
    for path in NOTEBOOKS:
        (folder / f"{path.stem}.md").write_text(page(executed(path)), "utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
