"""What the tests of Ray share."""

from __future__ import annotations

import pytest
from cluster import TRACES, results

import etlink


@pytest.fixture(scope="session")
def merged(tmp_path_factory) -> dict[str, bytes]:
    """The files of a merge in one process."""
    folder = tmp_path_factory.mktemp("one")
    etlink.open(TRACES).to_chakra(folder)
    return results(folder)
