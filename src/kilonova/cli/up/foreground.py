# SPDX-License-Identifier: Apache-2.0
"""A supervisor that runs in a terminal until Ctrl-C: its start and stop, signals and output."""

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from kilonova.cli.up.children import Watched
from kilonova.cli.up.cloud_files import lock_folder
from kilonova.cli.up.supervision import Supervision
from kilonova.process_parts import ProcessParts

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_until_stopped(folder: Path, start: Callable[[ProcessParts], Sequence[Watched]]) -> None:
    """Start the parts of a supervisor, and return when a signal has stopped them.

    ``folder``: the data folder, which no other process may use. ``start``: starts the parts, and returns the processes
    that are started again if they end. Raises: Unavailable, and what ``start`` raises, after all parts are stopped.
    """
    parts = ProcessParts()
    lock = lock_folder(folder)
    parts.opened("lock", lambda: os.close(lock))
    try:
        stop_on_signals()
        Supervision(start(parts), say).run()
    except KeyboardInterrupt:
        say("\nstopping")
    finally:
        ignore_signals()
        parts.stop()
    say("stopped")


def stop_on_signals() -> None:
    """Let the signals that stop the supervisor raise KeyboardInterrupt."""
    for number in STOP_SIGNALS:
        if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
            continue  # nohup has switched SIGHUP off, so that the cloud survives the end of the terminal
        signal.signal(number, signal.default_int_handler)


def ignore_signals() -> None:
    """Ignore these signals, so that a stop is complete."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def say(text: str) -> None:
    """Print a line; print nothing if it is empty."""
    if not text:
        return
    with contextlib.suppress(OSError):  # printing fails on a closed terminal; closing the terminal also stops the cloud
        print(text, flush=True)
