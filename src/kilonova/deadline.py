# SPDX-License-Identifier: Apache-2.0
"""Deadline of a request or task: it stops after a timeout, or when the client of a request has closed the connection.

The code that receives a request sets the deadline of the thread that answers it; long loops call :func:`check`
regularly, and a database read that is running at the deadline is cancelled. Background threads have no deadline, except
for tasks with a time budget.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TypeVar

from kilonova.errors import ClientGone, DeadlineExceeded
from kilonova.records import dataclass

T = TypeVar("T")
#: Number of items of a long list between two checks of the deadline. Processing them takes less than 1 ms.
_ITEMS_BETWEEN_LOOKS = 64


@dataclass(frozen=True, slots=True)
class Deadline:
    """The deadline of a request.

    ``ends_at``: the time of ``clock`` at which the request times out; None for no timeout. ``client_gone``: function
    that returns whether the client has closed the connection.
    """

    ends_at: float | None
    client_gone: Callable[[], bool]
    clock: Callable[[], float] = time.monotonic

    def is_over(self) -> bool:
        return (self.ends_at is not None and self.clock() > self.ends_at) or self.client_gone()

    def check(self) -> None:
        """Raise ClientGone if the client has closed the connection, or DeadlineExceeded if the timeout has passed."""
        if self.is_over():
            if self.client_gone():
                raise ClientGone("The client has closed the connection.")
            raise DeadlineExceeded("The request took longer than the service allows.")


def nobody_left() -> bool:
    """Return False: ``client_gone`` of tasks, and of HTTP servers that cannot detect a closed connection."""
    return False


NEVER = Deadline(None, nobody_left)
_current: ContextVar[Deadline | None] = ContextVar("kilonova_deadline", default=None)


class running:  # noqa: N801 - several uses per request, and a generator as context manager takes three times as long
    """Context manager that sets the deadline of this thread."""

    __slots__ = ("_deadline", "_token")

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline

    def __enter__(self) -> None:
        self._token = _current.set(self._deadline)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def current() -> Deadline | None:
    return _current.get()


def is_over() -> bool:
    """Return whether the deadline of this thread has passed."""
    deadline = _current.get()
    return deadline is not None and deadline.is_over()


def check() -> None:
    """Raise ClientGone or DeadlineExceeded if the deadline of this thread has passed."""
    deadline = _current.get()
    if deadline is not None:
        deadline.check()


def heeding(items: Iterable[T]) -> Iterator[T]:
    """Yield the items of a long list, and check this thread's deadline every few items.

    Raises: ClientGone, DeadlineExceeded.
    """
    for number, item in enumerate(items):
        if number % _ITEMS_BETWEEN_LOOKS == 0:
            check()
        yield item
