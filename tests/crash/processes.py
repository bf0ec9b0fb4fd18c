# SPDX-License-Identifier: Apache-2.0
"""Child processes forked from a parent without threads that has imported everything, so that each is cheap.

A child may be killed, or kill itself, at any time; if it ends normally, its result comes back as JSON.
"""

import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Ended:
    """End of a child. ``found``: its result; ``error``: its exception; ``late``: it exceeded its timeout."""

    killed: bool
    found: Any = None
    error: str = ""
    late: bool = False


class Child:
    """Function that runs in a child process from now on."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._result, into = os.pipe()
        sys.stdout.flush()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._result)
            _work(work, into)
        os.close(into)

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def end(self, *, at_most_s: float) -> Ended:
        """Wait for the child's end; kill it after the timeout."""
        said, late = _read(self._result, time.monotonic() + at_most_s)
        if late:
            self.kill()
        _, status = os.waitpid(self._pid, 0)
        os.close(self._result)
        if late:
            return Ended(killed=False, error=f"not within {at_most_s} s", late=True)
        if os.WIFSIGNALED(status):
            return Ended(killed=True)
        answer = json.loads(said)
        return Ended(killed=False, found=answer.get("found"), error=answer.get("error", ""))


def in_child(work: Callable[[], Any], *, at_most_s: float) -> Ended:
    """Run a function in a child process and wait for it; kill it after the timeout."""
    return Child(work).end(at_most_s=at_most_s)


def _work(work: Callable[[], Any], into: int) -> None:
    try:
        answer = {"found": work()}
    except BaseException:  # noqa: BLE001 - it is reported to the parent
        answer = {"error": traceback.format_exc()}
    with os.fdopen(into, "w") as out:
        json.dump(answer, out)
    os._exit(0)  # does not wait for running threads of bus and database


def _read(result: int, until: float) -> tuple[str, bool]:
    said = b""
    while True:
        ready, _, _ = select.select([result], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            return "", True
        part = os.read(result, 65536)
        if not part:
            return said.decode(), False
        said += part


def die() -> None:
    """End this process as ``kill -9`` does."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
