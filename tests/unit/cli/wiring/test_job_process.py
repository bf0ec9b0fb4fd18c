# SPDX-License-Identifier: Apache-2.0
"""The process of a job, in the process of the test."""

import io
import os
import sys
from pathlib import Path

import pytest

from kilonova.cli.wiring.job_process import command_of, run_job
from kilonova.conductor.jobs.frames import FrameKind, FrameReader
from kilonova.conductor.jobs.job_process import JobChannel
from kilonova.config.database import DatabaseSettings
from kilonova.config.settings import Settings
from support.control import settings_of


def failure_of(kind: str, files: list[str]) -> str:
    """Run a job, and return the reason of its failure."""
    reading, writing = os.pipe()
    assert run_job(JobChannel(io.BytesIO(), writing), files, kind, {}) == 1
    os.close(writing)
    with os.fdopen(reading, "rb") as reports:
        ((sent, reason),) = FrameReader().feed(reports.read())
    assert sent is FrameKind.FAILURE
    return reason.decode()


def test_the_command_names_the_configuration_files_and_the_parent(tmp_path: Path) -> None:
    command = command_of(settings_of(tmp_path), 7)
    assert command == [
        *(sys.executable, "-m", "kilonova", "job-worker", "--parent", "7", "--config-file"),
        str(tmp_path / "kilonova.conf"),
    ]


def test_settings_without_a_file_have_no_command() -> None:
    assert command_of(Settings(DatabaseSettings("sqlite:///none.db")), 7) is None


@pytest.mark.parametrize(
    ("kind", "file", "reason"),
    [("of the next release", "kilonova.conf", "does not know"), ("capacity", "none.conf", "none.conf")],
)
def test_a_job_that_cannot_run_fails_with_the_reason(tmp_path: Path, kind: str, file: str, reason: str) -> None:
    settings_of(tmp_path)
    assert reason in failure_of(kind, [str(tmp_path / file)])
