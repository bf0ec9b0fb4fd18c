# SPDX-License-Identifier: Apache-2.0
"""Interface of a stream of events, which the application makes and the server sends."""

from collections.abc import Callable
from typing import Protocol


class EventStream(Protocol):
    """A stream of events. No method may block; ``close`` is called once, when the connection has ended."""

    def attach(self, wake: Callable[[], None]) -> None:
        """Take the function to call, from any thread, whenever :meth:`take` has something new."""

    def take(self) -> bytes | None:
        """Return the next bytes to send, b"" if there are none yet, and None at the end of the stream."""

    def close(self) -> None:
        """End the stream."""
