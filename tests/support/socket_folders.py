# SPDX-License-Identifier: Apache-2.0
"""Folders for Unix sockets, whose paths may have at most 107 bytes; pytest's own folders are named after the test."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    """A folder with a short path."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
