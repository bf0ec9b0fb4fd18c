# SPDX-License-Identifier: Apache-2.0
"""Child processes forked from a parent without threads that has imported everything, so that each is cheap.

A child may be killed, or kill itself, at any time; if it ends normally, its result comes back as JSON. A child may also
stop itself for a moment, in which its parent copies its files: they are what a kill at that moment leaves.
"""

import ctypes
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Library whose functions keep Python's lock, so that no other thread of the process runs meanwhile.
_LIBC = ctypes.PyDLL(None)
#: Byte in the pipe of the result (JSON has no such byte) that says that the child stops.
_STOPS = b"\0"


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

    def end(self, *, at_most_s: float, stopped: Callable[[], None] = lambda: None) -> Ended:
        """Wait for the child's end; kill it after the timeout. ``stopped``: called whenever the child stops itself."""
        said, late = self._read(time.monotonic() + at_most_s, stopped)
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

    def _read(self, until: float, stopped: Callable[[], None]) -> tuple[str, bool]:
        """Read the result, and handle stops. Returns the result, and whether the timeout passed."""
        said = b""
        while True:
            ready, _, _ = select.select([self._result], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return "", True
            part = os.read(self._result, 65536)
            if not part:
                return said.decode(), False
            for _ in range(part.count(_STOPS)):
                _, status = os.waitpid(self._pid, os.WUNTRACED)
                assert os.WIFSTOPPED(status), status
                stopped()
                os.kill(self._pid, signal.SIGCONT)
            said += part.replace(_STOPS, b"")


def in_child(work: Callable[[], Any], *, at_most_s: float, stopped: Callable[[], None] = lambda: None) -> Ended:
    """Run a function in a child process and wait for it; kill it after the timeout.

    ``stopped``: called whenever the child stops itself.
    """
    return Child(work).end(at_most_s=at_most_s, stopped=stopped)


def _work(work: Callable[[], Any], into: int) -> None:
    global _RESULT  # noqa: PLW0603
    _RESULT = into
    try:
        answer = {"found": work()}
    except BaseException:  # noqa: BLE001 - it is reported to the parent
        answer = {"error": traceback.format_exc()}
    with os.fdopen(into, "w") as out:
        json.dump(answer, out)
    os._exit(0)  # does not wait for running threads of bus and database


#: In a child: the pipe for its result.
_RESULT = -1


def stop() -> None:
    """Stop this child with all of its threads, until its parent has handled the stop.

    No other thread runs between the call and the stop, as at a kill.
    """
    _LIBC.write(_RESULT, _STOPS, 1)
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def die() -> None:
    """End this process as ``kill -9`` does."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
