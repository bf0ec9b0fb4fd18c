# SPDX-License-Identifier: Apache-2.0
"""Entry point of the ``kilonova`` command. It imports most modules only after Ctrl-C has been made to work."""

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kilonova.lasting import made_to_last


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Return the exit code: 0, 1 for a failure, 2 for invalid input."""
    argv = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    with _ended_by_ctrl_c(), made_to_last():
        from kilonova.cli import application  # noqa: PLC0415 - importing it and the command takes half a second

        command = application.build(argv[0])
    return application.run(command, argv)


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """Make Ctrl-C kill the process without a traceback while modules are imported, when nothing needs clean-up yet."""
    is_python_s = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_python_s or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
