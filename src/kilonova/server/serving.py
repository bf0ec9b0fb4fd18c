# SPDX-License-Identifier: Apache-2.0
"""Run a server until the process gets SIGTERM or SIGINT."""

import signal
from collections.abc import Callable
from typing import Protocol

from kilonova.process_signals import wakeup

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Serving(Protocol):
    """A server that can be started and stopped."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


def serve_until_told(server: Serving, on_hangup: Callable[[], None] | None = None) -> None:
    """Start a server, wait for SIGTERM or SIGINT, and stop the server. Call it from the main thread.

    ``on_hangup``: handler of SIGHUP; if it is None, SIGHUP ends the process as usual.
    """
    received: set[int] = set()
    with wakeup() as signals:
        if on_hangup is not None:
            signal.signal(signal.SIGHUP, lambda _number, _frame: on_hangup())
        for number in _SIGNALS:
            signal.signal(number, lambda number, _frame: received.add(number))
        server.start()
        while not received:
            signals.wait()
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
    server.stop()
