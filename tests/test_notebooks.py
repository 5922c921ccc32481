"""The notebooks run from top to bottom in a kernel of their own, and are kept without outputs."""

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from .analyze.published import SQLIO_64K_RANDOM_READS

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "a_layer_argument_settled",
        "incident_post_mortem",
        "sizing_a_migration",
        "the_same_load_on_three_clouds",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stripped_and_readable(path: Path) -> None:
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    assert path.stat().st_size < 20_000
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    assert book.cells[0].source.startswith("# ")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
# nbclient closes its sockets when the loop is gone; nothing of the notebook is left by then.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLOTLY_RENDERER", "plotly_mimetype")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    book = nbformat.read(path, as_version=4)
    NotebookClient(
        book, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    charts = [
        output
        for cell in code
        for output in cell.outputs
        if "application/vnd.plotly.v1+json" in output.get("data", {})
    ]
    assert charts


def test_the_table_called_published_is_the_published_one() -> None:
    """Figures copied by hand, row by row."""
    book = nbformat.read(FOLDER / "sizing_a_migration.ipynb", as_version=4)
    (cell,) = (cell for cell in book.cells if cell.source.startswith("outstanding = "))
    lines = (line.partition(" = ") for line in cell.source.splitlines()[:3])
    shown = {name: json.loads(values) for name, _, values in lines}
    rows = zip(*(SQLIO_64K_RANDOM_READS[name] for name in ("outstanding", "iops", "mb_per_s")), strict=True)
    published = {outstanding: (iops, mb_per_s) for outstanding, iops, mb_per_s in rows}
    for outstanding, iops, mib_per_s in zip(
        shown["outstanding"], shown["iops"], shown["mib_per_s"], strict=True
    ):
        assert (iops, mib_per_s) == pytest.approx(published[outstanding], rel=0.002)
