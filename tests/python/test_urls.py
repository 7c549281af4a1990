"""Traces that a URL names."""

from __future__ import annotations

import functools
import http.server
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import PAIRS

import etlink

MLP = PAIRS / "mlp-2.15.0"


@pytest.fixture
def server() -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(MLP))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_url_is_read(server: str) -> None:
    [trace] = MLP.glob("kineto*")
    run = etlink.open(f"{server}/{trace.name}")
    assert run.table("steps").to_pylist() == etlink.open(trace).table("steps").to_pylist()
    copy = Path(run._opening.paths[0])
    assert copy.name == trace.name and copy.exists()
    del run
    assert not copy.exists()
    assert etlink.open(trace.as_uri()).ranks == etlink.open(trace).ranks


def test_what_a_url_does_not_give_is_an_error(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(etlink.Error, match="404"):
        etlink.open(f"{server}/missing.json")
    with pytest.raises(etlink.Error, match="is a folder"):
        etlink.open(f"{server}/")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(etlink.Error, match="hdfs needs fsspec") as raised:
        etlink.open("hdfs://server/trace.json.gz")
    assert raised.value.file == "hdfs://server/trace.json.gz"
    assert raised.value.remedy is not None and "pip install fsspec" in raised.value.remedy


def test_an_object_store_needs_no_fsspec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cargo dev ray` reads from a store. Here etlink itself says what it misses."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(etlink.Error, match="s3://bucket/run.*no credentials found"):
        etlink.open("s3://bucket/run")
