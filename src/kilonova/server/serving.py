# SPDX-License-Identifier: Apache-2.0
"""Run a server until the process gets SIGTERM or SIGINT."""

import os
import signal
from collections.abc import Callable
from typing import Protocol

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Serving(Protocol):
    """A server that can be started and stopped."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


def serve_until_told(server: Serving, on_hangup: Callable[[], None] | None = None) -> None:
    """Start a server, wait for SIGTERM or SIGINT, and stop the server. Call it from the main thread.

    ``on_hangup``: handler of SIGHUP; without it SIGHUP ends the process as usual.
    """
    told = os.eventfd(0, os.EFD_CLOEXEC)
    if on_hangup is not None:
        signal.signal(signal.SIGHUP, lambda _number, _frame: on_hangup())
    for number in _SIGNALS:
        signal.signal(number, lambda _number, _frame: os.eventfd_write(told, 1))
    server.start()
    os.read(told, 8)  # os.read() returns on a signal, while os.eventfd_read() would raise InterruptedError
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    server.stop()
