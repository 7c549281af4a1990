"""The examples of the book run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import ROOT

GUIDE = (ROOT / "docs/src/guides/python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
# the recorder needs PyTorch and a program: `cargo dev test-torch` runs it
RUN = [example for example in EXAMPLES if "etlink.record" not in example]


@pytest.mark.parametrize("example", RUN)
def test_examples_run(
    example: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    # some write files, which are none of the repository's
    (tmp_path / "testdata").symlink_to(ROOT / "testdata")
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "python.md", "exec"), {"__name__": "__main__"})
    captured = capsys.readouterr()
    assert captured.err == ""


def test_all_tables_are_named_in_the_guide() -> None:
    import etlink

    assert len(RUN) >= 4
    run = etlink.open(ROOT / "testdata/pairs/ddp2-2.15.0")
    named = re.findall(r"`([a-z_.]+)`", GUIDE)
    for name in ["findings", "top", "events", "nodes", "edges", "collectives"]:
        assert name in named and name in run.tables
    assert Path(run.name).name == "ddp2-2.15.0"
