# SPDX-License-Identifier: Apache-2.0
import logging
import os
from pathlib import Path

import pytest

from kilonova.logs.rotation import LogFile, RotatingLog


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("x", logging.INFO, __file__, 1, text, None, None)


def test_a_log_is_rotated_while_it_is_written_and_a_bounded_number_stays(tmp_path: Path) -> None:
    handler = RotatingLog(LogFile(tmp_path / "a.log", max_bytes=1000, kept=2))
    for number in range(500):
        handler.handle(record(f"line {number:04}"))
    handler.close()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["a.log", "a.log.1", "a.log.2"]
    assert all(path.stat().st_size <= 1010 for path in tmp_path.iterdir())
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())
    lines = [line for name in reversed(files) for line in (tmp_path / name).read_text().splitlines()]
    assert lines == [f"line {number:04}" for number in range(500 - len(lines), 500)]


def test_without_a_size_nothing_is_rotated(tmp_path: Path) -> None:
    handler = RotatingLog(LogFile(tmp_path / "a.log"))
    for _ in range(500):
        handler.handle(record("x" * 100))
    handler.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.log"]


def test_a_full_disk_costs_records_and_nothing_else(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    handler = RotatingLog(LogFile(tmp_path / "a.log"))
    stream = os.open("/dev/full", os.O_WRONLY)
    os.dup2(stream, handler.stream.fileno())
    handler.handle(record("lost"))
    os.close(stream)
    assert capfd.readouterr().err == ""
