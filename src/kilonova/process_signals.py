# SPDX-License-Identifier: Apache-2.0
"""Wake-up of a blocking system call by a signal.

Python runs a signal handler between two bytecodes. A signal that arrives after the last check of the interpreter and
before the thread blocks in the kernel leaves the thread blocked, and its handler waits until another signal comes. The
descriptor of :func:`wakeup` is written by the C handler itself, so a call that also waits for it returns.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def wakeup() -> Iterator[int]:
    """Yield a descriptor that becomes readable on every signal with a handler. Call it from the main thread."""
    readable, writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(readable, True)
    previous = signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    try:
        yield readable
    finally:
        signal.set_wakeup_fd(previous)
        os.close(readable)
        os.close(writable)
