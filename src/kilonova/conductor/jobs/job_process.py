# SPDX-License-Identifier: Apache-2.0
"""The process of one job: it reads the job from its standard input, computes, and sends frames on its standard output.

It ends as soon as the control process closes the standard input, which the kernel does if the control process dies.
"""

import logging
import os
import sys
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

import orjson

from kilonova.conductor.jobs.frames import LONGEST, FrameKind, encoded
from kilonova.conductor.jobs.job_context import JobContext
from kilonova.errors import KilonovaError
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
#: Maximum length of a result in bytes, as JSON.
LONGEST_RESULT = 128 * 1024 * 1024
_NICENESS = 10
#: The kernel ends this process rather than the control process when memory is short.
_OOM_SCORE = "500"

JobFunction = Callable[[JobContext, Any], Any]


def lower_priority() -> None:
    """Give the processor and the memory to the other processes of the machine first."""
    os.nice(_NICENESS)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(_OOM_SCORE)


@dataclass(slots=True)
class JobChannel:
    """The two pipes to the control process. ``orders``: the job. ``reports``: takes the frames.

    ``longest_result``: maximum length of a result in bytes, as JSON.
    """

    orders: BinaryIO
    reports: int
    longest_result: int = LONGEST_RESULT

    @classmethod
    def of_standard_streams(cls) -> "JobChannel":
        """Take the standard streams over. What plug-ins print goes to the standard error stream from now on."""
        reports = os.dup(1)
        os.dup2(2, 1)
        return cls(sys.stdin.buffer, reports)

    def read_job(self) -> tuple[str, Any]:
        """Return kind and parameters of the job. Raises: EOFError, if the control process has ended."""
        line = self.orders.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        job = orjson.loads(line)
        return job["kind"], job["parameters"]

    def end_with_control_process(self) -> None:
        """End this process as soon as the control process has closed its end, in a thread."""

        def watch() -> None:
            self.orders.read()
            os._exit(1)

        threading.Thread(target=watch, name="control-process", daemon=True).start()

    def report(self, done: float, text: str) -> None:
        """Send the progress of the job."""
        self._send(encoded(FrameKind.PROGRESS, orjson.dumps([done, text[:1000]])))

    def deliver(self, result: Any) -> None:
        """Send the result of the job, or a failure if it is too large."""
        plain = orjson.dumps(result, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
        packed = zlib.compress(plain, 6) if len(plain) <= self.longest_result else b""
        if not packed or len(packed) > LONGEST:
            self.fail(f"The result is too large: {len(plain)} bytes.")
            return
        self._send(encoded(FrameKind.RESULT, packed))

    def fail(self, reason: str) -> None:
        """Send the reason for which the job has failed."""
        self._send(encoded(FrameKind.FAILURE, reason[:2000].encode()))

    def _send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self.reports, left) :]


def compute(channel: JobChannel, function: JobFunction, context: JobContext, parameters: Any) -> int:
    """Run the job and send its result or its failure. Return the exit status of the process."""
    try:
        channel.deliver(function(context, parameters))
    except BrokenPipeError:
        return 1
    except MemoryError:
        channel.fail("The machine has too little memory for the job.")
        return 1
    except KilonovaError as error:
        channel.fail(error.message)
        return 1
    except Exception as error:
        LOG.exception("The job failed")
        channel.fail(f"The job failed by an error of the service: {type(error).__name__}. The log has the details.")
        return 1
    return 0
