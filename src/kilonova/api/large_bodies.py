# SPDX-License-Identifier: Apache-2.0
"""Concurrency limit for large request bodies: parsed JSON may need thirty times its size in memory.

Only Placement accepts bodies of more than a mebibyte. The limit bounds the memory of the process, however many threads
and clients there are.
"""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from kilonova.errors import Unavailable

_LARGE = 1 << 20
_AT_ONCE = 2
#: Seconds that a request waits for its turn; short, because it blocks a thread meanwhile.
_TIMEOUT_S = 2.0
_turns = threading.BoundedSemaphore(_AT_ONCE)
#: glibc's malloc_trim, None with another C library.
_trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)


_NO_TURN = nullcontext()


def turn(size: int) -> AbstractContextManager[None]:
    """Return a context manager that limits how many large bodies are parsed at once; no-op for a small ``size``.

    ``size``: bytes of the body. Raises: Unavailable on entry, after the timeout.
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
    """Return memory of a large body to the operating system; the allocator would keep it."""
    if size >= _LARGE and _trim is not None:
        _trim(0)
