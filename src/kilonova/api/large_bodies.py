# SPDX-License-Identifier: Apache-2.0
"""Large bodies take turns: what JSON becomes in memory may be thirty times as large as it was.

Only Placement takes bodies of more than a mebibyte. How many of them a process takes apart at once bounds its memory,
whatever the number of its threads and of the clients that send them.
"""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from kilonova.errors import Unavailable

_LARGE = 1 << 20
_AT_ONCE = 2
#: How long a request waits for its turn. Short, since its thread serves nobody meanwhile.
_PATIENCE_S = 2.0
_turns = threading.BoundedSemaphore(_AT_ONCE)
#: None where the C library is not GNU's.
_trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)


_NO_TURN = nullcontext()


def turn(size: int) -> AbstractContextManager[None]:
    """Return what waits until a body of so many bytes may be taken apart, and holds back others meanwhile.

    Raises: Unavailable, when it is entered.
    """
    return _NO_TURN if size < _LARGE else _large_turn()


@contextmanager
def _large_turn() -> Iterator[None]:
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
