# SPDX-License-Identifier: Apache-2.0
"""Wake-up of a blocking system call by a signal.

Python runs a signal handler between two bytecodes. A signal that arrives after the last check of the interpreter and
before the thread blocks in the kernel does not interrupt the blocking call, and its Python handler runs only after
another signal. The C handler, however, writes to the descriptor of a :class:`Wakeup`, so a call that also waits for
this descriptor returns.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

#: Maximum number of signals, one byte each, that one read consumes. Further signals make the next wait return
#: immediately, which is harmless.
_AT_ONCE = 4096


class Wakeup:
    """A file for ``poll`` and ``select`` that becomes readable when a signal with a Python handler arrives."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def wait(self) -> None:
        """Block until a signal has arrived since the last call."""
        os.read(self._descriptor, _AT_ONCE)


@contextmanager
def wakeup() -> Iterator[Wakeup]:
    """Yield a :class:`Wakeup` for all signals of this process. Call this from the main thread."""
    readable, writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(readable, True)  # os.set_blocking has only positional parameters
    previous = signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    try:
        yield Wakeup(readable)
    finally:
        signal.set_wakeup_fd(previous)
        os.close(readable)
        os.close(writable)
