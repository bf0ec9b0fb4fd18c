# SPDX-License-Identifier: Apache-2.0
"""A guest that writes without end does not fill the disk of its host."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.compute.virt.abilities import CONSOLE_BYTES
from kilonova.compute.virt.libvirt.console_logs import ConsoleLogs, end_of


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[ConsoleLogs]:
    made = ConsoleLogs(tmp_path)
    yield made
    made.stop()


def log_of(folder: Path, uuid: str) -> Path:
    (folder / uuid).mkdir()
    return folder / uuid / "console.log"


def test_the_end_stays_and_what_comes_then(logs: ConsoleLogs, tmp_path: Path) -> None:
    long, short = log_of(tmp_path, "a"), log_of(tmp_path, "b")
    with long.open("ab", buffering=0) as guest:
        guest.write(b"old" * CONSOLE_BYTES * 10 + b"end\n")
        short.write_bytes(b"short\n")
        logs.cut()
        guest.write(b"more\n")
    assert long.stat().st_size == CONSOLE_BYTES + len(b"more\n")
    assert long.read_bytes().endswith(b"end\nmore\n")
    assert end_of(long) == long.read_bytes()[-CONSOLE_BYTES:]
    assert short.read_bytes() == end_of(short) == b"short\n"


def test_there_is_none_yet(logs: ConsoleLogs, tmp_path: Path) -> None:
    assert end_of(log_of(tmp_path, "a")) == b""
    logs.cut()
