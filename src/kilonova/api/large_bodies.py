# SPDX-License-Identifier: Apache-2.0
"""Concurrency limit for requests with large bodies, because parsed JSON may need thirty times its size in memory.

A body is large from one mebibyte on; only Placement accepts such bodies. The limit bounds the memory of the process for
any number of threads and clients.
"""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from kilonova.errors import Unavailable

_LARGE = 1 << 20
_AT_ONCE = 2
#: Maximum time in seconds that a request waits for a slot. It is short, because a waiting request blocks a thread.
_TIMEOUT_S = 2.0
_turns = threading.BoundedSemaphore(_AT_ONCE)
#: ``malloc_trim`` of glibc; None if the C library is another one.
_trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)


_NO_TURN = nullcontext()


def turn(size: int) -> AbstractContextManager[None]:
    """Return a context manager inside which a request may parse and handle its body of ``size`` bytes.

    On entry, a request with a large body waits until fewer than ``_AT_ONCE`` others with large bodies are inside.
    Raises: Unavailable on entry, after the timeout.
    """
    return _NO_TURN if size < _LARGE else _large_turn()


@contextmanager
def _large_turn() -> Iterator[None]:
    if not _turns.acquire(timeout=_TIMEOUT_S):
        raise Unavailable(f"{_AT_ONCE} requests with large bodies are in progress; retry later.")
    try:
        yield
    finally:
        _turns.release()


def give_back_memory(size: int) -> None:
    """Return the memory of a large body to the operating system, because the allocator would keep it."""
    if size >= _LARGE and _trim is not None:
        _trim(0)
