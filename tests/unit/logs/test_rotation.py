# SPDX-License-Identifier: Apache-2.0
import logging
import multiprocessing
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


def test_several_processes_rotate_one_log_once(tmp_path: Path) -> None:
    """A process that finds its file full after another one has renamed it only opens the new file."""
    handlers = [RotatingLog(LogFile(tmp_path / "a.log", max_bytes=1000, kept=9)) for _ in range(3)]
    for number in range(600):
        handlers[number * number % 3].handle(record(f"line {number:04}"))
        handlers[number % 3].handle(record("another"))
    for handler in handlers:
        handler.close()
    old = [tmp_path / f"a.log.{number}" for number in range(1, 10)]
    assert all(990 <= path.stat().st_size <= 1010 for path in old)
    kept = [line for path in [*reversed(old), tmp_path / "a.log"] for line in path.read_text().splitlines()]
    lines = [line for line in kept if line != "another"]
    assert lines == [f"line {number:04}" for number in range(600 - len(lines), 600)]


def _fill(path: Path, name: int) -> None:
    handler = RotatingLog(LogFile(path, max_bytes=4000, kept=1000))
    for number in range(2000):
        handler.handle(record(f"{name} {number:04}"))
    handler.close()


def test_processes_that_rotate_at_the_same_time_lose_no_line(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_fill, args=(tmp_path / "a.log", name)) for name in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    found = sorted(line for path in tmp_path.iterdir() for line in path.read_text().splitlines())
    assert found == sorted(f"{name} {number:04}" for name in range(3) for number in range(2000))
    assert len(list(tmp_path.iterdir())) <= 6000 * 7 // 4000 + 2


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
