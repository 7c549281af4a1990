"""The notebook of the book runs as it stands there."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat
import pytest
from conftest import ROOT

NOTEBOOK = ROOT / "docs/src/notebooks/tutorial.ipynb"


@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    # what was shown when it was written is none of the book's
    assert all(not cell.get("outputs") for cell in notebook.cells)
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    )
    client.execute()
    shown = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert all(shown)
    data = [output.get("data", {}) for outputs in shown for output in outputs]
    pages = [str(one.get("text/html", "")) for one in data]
    assert any("vegaEmbed" in html for html in pages)
    # nothing is printed; a bar of progress goes to standard error, where a busy machine takes long to read
    streams = [output for outputs in shown for output in outputs if output.output_type == "stream"]
    assert [stream.text for stream in streams if stream.name == "stdout"] == []
