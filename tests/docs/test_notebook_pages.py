"""Pages made of notebooks: what was printed and drawn is on them, and nothing in a figure ends its script."""

import importlib.util
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from nbformat import v4

ROOT = Path(__file__).parents[2]


@pytest.fixture
def notebook_pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebook_pages", ROOT / "tools" / "notebook_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def book() -> nbformat.NotebookNode:
    figure = {"data": [{"type": "scatter", "name": "</script><b>"}], "layout": {"height": 300}}
    outputs = [
        v4.new_output("stream", text="432 a second\n"),
        v4.new_output("display_data", {"application/vnd.plotly.v1+json": figure, "text/plain": "Figure"}),
    ]
    return v4.new_notebook(
        cells=[v4.new_markdown_cell("# A night"), v4.new_code_cell("print(rate)", outputs=outputs)]
    )


def test_a_page_shows_code_words_and_figures(notebook_pages: ModuleType) -> None:
    text = notebook_pages.page(book())
    assert text.startswith("# A night\n")
    assert "```python\nprint(rate)\n```" in text
    assert "````text\n432 a second\n````" in text
    assert 'style="height: 300px"' in text
    assert text.count("Plotly.newPlot") == 1
    assert "Figure" not in text


def test_a_name_in_a_figure_ends_no_script(notebook_pages: ModuleType) -> None:
    text = notebook_pages.page(book())
    assert text.count("</script>") == 2  # Plotly's own, and that of the figure
    assert "://" not in text


def test_every_notebook_is_in_the_site(notebook_pages: ModuleType) -> None:
    listed = (ROOT / "zensical.toml").read_text("utf-8")
    for path in notebook_pages.NOTEBOOKS:
        assert f'"notebooks/{path.stem}.md"' in listed
