# SPDX-License-Identifier: Apache-2.0
"""Large bodies take turns: what JSON becomes in memory may be thirty times as large as it was.

Only Placement takes bodies of more than a mebibyte. How many of them a process takes apart at once bounds its memory,
whatever the number of its threads and of the clients that send them.
"""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kilonova.errors import Unavailable

_LARGE = 1 << 20
_AT_ONCE = 2
#: How long a request waits for its turn. Short, since its thread serves nobody meanwhile.
_PATIENCE_S = 2.0
_turns = threading.BoundedSemaphore(_AT_ONCE)
#: None where the C library is not GNU's.
_trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)


@contextmanager
def turn(size: int) -> Iterator[None]:
    """Wait until a body of so many bytes may be taken apart, and hold back others meanwhile. Raises: Unavailable."""
    if size < _LARGE:
        yield
        return
    if not _turns.acquire(timeout=_PATIENCE_S):
        raise Unavailable(f"{_AT_ONCE} requests with large bodies are being handled; send this one again later.")
    try:
        yield
    finally:
        _turns.release()


def give_back_memory(size: int) -> None:
    """Have the allocator return what a large body needed; by itself it keeps that for the next one."""
    if size >= _LARGE and _trim is not None:
        _trim(0)
