# SPDX-License-Identifier: Apache-2.0
"""Signals and output of a supervisor that runs in a terminal until Ctrl-C."""

import contextlib
import signal

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
    """Print a line."""
    with contextlib.suppress(OSError):  # printing fails on a closed terminal; closing the terminal also stops the cloud
        print(text, flush=True)
