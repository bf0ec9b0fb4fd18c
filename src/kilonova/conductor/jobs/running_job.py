# SPDX-License-Identifier: Apache-2.0
"""A job's process as its control process sees it: started, listened to, and killed."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import field

import orjson

from kilonova.conductor.jobs.frames import BadFrameError, FrameKind, FrameReader
from kilonova.db.jobs import ClaimedJob
from kilonova.records import dataclass

_READ = 1 << 16
_WRITTEN_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended: by a result (compressed JSON) or with the reason of its failure."""

    result: bytes | None = None
    failure: str | None = None


@dataclass(slots=True)
class RunningJob:
    """The process of a job. ``outcome``: None until the process has ended. ``progress``: the newest report.

    All methods must be called from one thread, which lives as long as the process: the kernel ends the process with it.
    """

    job: ClaimedJob
    process: subprocess.Popen[bytes]
    began: float
    progress: tuple[float, str] | None = None
    outcome: Outcome | None = None
    _orders: memoryview = field(default_factory=lambda: memoryview(b""))
    _reader: FrameReader = field(default_factory=FrameReader)
    _said: Outcome | None = None

    @classmethod
    def start(cls, command: Sequence[str], job: ClaimedJob) -> "RunningJob":
        """Start the process of a job. Raises: OSError."""
        process = subprocess.Popen(  # noqa: S603 - this program
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        os.set_blocking(process.stdout.fileno(), False)
        orders = orjson.dumps({"kind": job.kind, "parameters": job.prepared}) + b"\n"
        return cls(job, process, time.monotonic(), _orders=memoryview(orders))

    @property
    def reports(self) -> int:
        """Descriptor that is readable when :meth:`listen` has something to do."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    @property
    def has_orders_left(self) -> bool:
        """Whether the process has not been sent its whole job; :meth:`send_orders` continues."""
        return bool(self._orders)

    @property
    def orders_to(self) -> int:
        """Descriptor that is writable when :meth:`send_orders` has something to do."""
        assert self.process.stdin is not None
        return self.process.stdin.fileno()

    def send_orders(self) -> None:
        """Send as much of the job as the pipe takes."""
        try:
            while self._orders:
                self._orders = self._orders[os.write(self.orders_to, self._orders[:_WRITTEN_AT_ONCE]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # the process has ended, which listen() finds
            self._orders = memoryview(b"")

    def listen(self) -> None:
        """Read what the process has sent; set ``outcome`` when it has ended."""
        try:
            data = os.read(self.reports, _READ)
        except BlockingIOError:
            return
        if not data:
            self.kill()
            self.outcome = self._said or Outcome(failure=_ending_text(self.process.wait()))
            return
        try:
            for kind, content in self._reader.feed(data):
                self._take(kind, content)
        except (BadFrameError, ValueError):
            self._said = Outcome(failure="The process of the job sent invalid data.")
            self.kill()

    def _take(self, kind: FrameKind, content: bytes) -> None:
        if kind is FrameKind.PROGRESS:
            done, text = orjson.loads(content)
            self.progress = float(done), str(text)
        elif kind is FrameKind.RESULT:
            self._said = Outcome(result=content)
        else:
            self._said = Outcome(failure=content.decode(errors="replace"))

    def stop(self, reason: str) -> None:
        """Kill the process; the job has failed with ``reason``."""
        self._said = Outcome(failure=reason)
        self.kill()

    def kill(self) -> None:
        """Kill the process and the processes that it started. Idempotent; the caller must still :meth:`close`."""
        if self.process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the process, wait for its end, and close the pipes."""
        if self.process.returncode is None:
            self.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _ending_text(status: int) -> str:
    if status >= 0:
        return f"The process of the job ended with exit status {status}."
    name = signal.Signals(-status).name
    hint = " The kernel does so when memory is short." if -status == signal.SIGKILL else ""
    return f"The process of the job was killed by {name}.{hint}"
