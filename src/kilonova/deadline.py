# SPDX-License-Identifier: Apache-2.0
"""The end of a request's work: its time is over, or its client is gone.

The border of a request sets the deadline of the thread that answers it; whatever may take long asks :func:`check` every
so often, and reads of the database end with it. Threads that work for nobody in particular have no deadline.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from kilonova.errors import ClientGone, DeadlineExceeded

T = TypeVar("T")
#: Items of a long list that are handled between two looks at the deadline: some tenths of a millisecond.
_ITEMS_BETWEEN_LOOKS = 64


@dataclass(frozen=True, slots=True)
class Deadline:
    """When to stop. ``ends_at``: by ``clock``, None for never. ``client_gone``: whether nobody waits any more."""

    ends_at: float | None
    client_gone: Callable[[], bool]
    clock: Callable[[], float] = time.monotonic

    def is_over(self) -> bool:
        return (self.ends_at is not None and self.clock() > self.ends_at) or self.client_gone()

    def check(self) -> None:
        """Raises: ClientGone, DeadlineExceeded."""
        if self.is_over():
            if self.client_gone():
                raise ClientGone("The client has closed the connection.")
            raise DeadlineExceeded("The request took longer than the service allows.")


def nobody_left() -> bool:
    """Say that the client is there, where a server cannot tell."""
    return False


NEVER = Deadline(None, nobody_left)
_current: ContextVar[Deadline | None] = ContextVar("kilonova_deadline", default=None)


class running:  # noqa: N801 - a context manager, which every request enters several times: a generator takes thrice as long
    """Make a deadline the one of this thread, as long as it is entered."""

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
    """Whether the work of this thread is no longer wanted."""
    deadline = _current.get()
    return deadline is not None and deadline.is_over()


def check() -> None:
    """Stop here when the work of this thread is no longer wanted. Raises: ClientGone, DeadlineExceeded."""
    deadline = _current.get()
    if deadline is not None:
        deadline.check()


def heeding(items: Iterable[T]) -> Iterator[T]:
    """Yield the items of a list that may be long, as long as they are wanted. Raises: ClientGone, DeadlineExceeded."""
    for number, item in enumerate(items):
        if number % _ITEMS_BETWEEN_LOOKS == 0:
            check()
        yield item
