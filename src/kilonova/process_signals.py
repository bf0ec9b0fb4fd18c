# SPDX-License-Identifier: Apache-2.0
"""Wake-up of a blocking system call by a signal.

Python runs a signal handler between two bytecodes. A signal that arrives after the last check of the interpreter and
before the thread blocks in the kernel leaves the thread blocked, and its handler waits until another signal comes. The
descriptor of a :class:`Wakeup` is written by the C handler itself, so a call that also waits for it returns.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

#: Signals that one read takes. More of them end the next wait at once, which does no harm.
_AT_ONCE = 4096


class Wakeup:
    """Readable after a signal that has a handler, also for ``poll`` and ``select``."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def wait(self) -> None:
        """Block until a signal has arrived since the last call."""
        os.read(self._descriptor, _AT_ONCE)


@contextmanager
def wakeup() -> Iterator[Wakeup]:
    """Yield the wake-up of this process. Call it from the main thread."""
    readable, writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(readable, True)  # a positional parameter of the standard library
    previous = signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    try:
        yield Wakeup(readable)
    finally:
        signal.set_wakeup_fd(previous)
        os.close(readable)
        os.close(writable)
