# SPDX-License-Identifier: Apache-2.0
"""The process side of a job, in this process, on real pipes."""

import io
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import orjson
import pytest

from kilonova.claims.present_cloud import PresentCloud
from kilonova.conductor.jobs.frames import FrameKind, FrameReader
from kilonova.conductor.jobs.job_context import JobContext
from kilonova.conductor.jobs.job_process import LONGEST_RESULT, JobChannel, compute
from kilonova.db.database import Database
from kilonova.errors import NotFound
from kilonova.scheduler.engine.engine import Engine

Frames = Callable[[], list[tuple[FrameKind, bytes]]]

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for each in (reading, writing):
        os.close(each)


@pytest.fixture
def context(database: Database) -> JobContext:
    return JobContext(PresentCloud(database, Engine()), lambda _done, _text: None)


def sent(
    pipe: tuple[int, int],
    context: JobContext,
    function: Callable[[JobContext, Any], Any],
    longest_result: int = LONGEST_RESULT,
) -> tuple[int, Any]:
    status = compute(JobChannel(io.BytesIO(), pipe[1], longest_result), function, context, {"asked": 1})
    (frame,) = FrameReader().feed(os.read(pipe[0], 1 << 16))
    return status, frame


def test_a_result_is_sent_packed(pipe: tuple[int, int], context: JobContext) -> None:
    status, (kind, content) = sent(pipe, context, lambda _, given: {**given, "numbers": np.arange(3)})
    assert (status, kind) == (0, FrameKind.RESULT)
    assert orjson.loads(zlib.decompress(content)) == {"asked": 1, "numbers": [0, 1, 2]}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NotFound("No such host."), "No such host."),
        (MemoryError(), "too little memory"),
        (ZeroDivisionError(), "an error of the service: ZeroDivisionError"),
    ],
)
def test_an_error_is_sent_as_a_reason(
    pipe: tuple[int, int], context: JobContext, error: Exception, reason: str
) -> None:
    def fails(_context: JobContext, _given: Any) -> Any:
        raise error

    status, (kind, content) = sent(pipe, context, fails)
    assert (status, kind) == (1, FrameKind.FAILURE)
    assert reason in content.decode()


def test_a_result_that_is_too_large_is_a_failure(pipe: tuple[int, int], context: JobContext) -> None:
    _, (kind, content) = sent(pipe, context, lambda *_: "x" * 100, longest_result=100)
    assert (kind, content) == (FrameKind.FAILURE, b"The result is too large: 102 bytes.")
