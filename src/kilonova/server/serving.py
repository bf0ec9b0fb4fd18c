# SPDX-License-Identifier: Apache-2.0
"""Serve until a signal says that it is enough."""

import os
import signal
from collections.abc import Callable
from typing import Protocol

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Serving(Protocol):
    """What is started and stopped again."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


def serve_until_told(server: Serving, on_hangup: Callable[[], None] | None = None) -> None:
    """Start, wait for SIGTERM or SIGINT, finish what is under way and return. Call it from the main thread.

    ``on_hangup``: what SIGHUP asks for; without it that ends the process as usual.
    """
    told = os.eventfd(0, os.EFD_CLOEXEC)
    if on_hangup is not None:
        signal.signal(signal.SIGHUP, lambda _number, _frame: on_hangup())
    for number in _SIGNALS:
        signal.signal(number, lambda _number, _frame: os.eventfd_write(told, 1))
    server.start()
    os.read(told, 8)  # goes on when a signal comes; os.eventfd_read ends with InterruptedError then
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    server.stop()
