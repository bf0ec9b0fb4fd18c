# SPDX-License-Identifier: Apache-2.0
"""A server process that is told to end."""

import signal
import subprocess
import sys

import pytest

_PROGRAM = """
import sys
from kilonova.server.serving import serve_until_told

class Server:
    def start(self):
        print("started", flush=True)

    def stop(self):
        print("stopped", flush=True)

serve_until_told(Server(), lambda: print("hung up", flush=True))
"""


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(told: signal.Signals) -> None:
    """The signal comes while the main thread waits, which must not look like an error."""
    program = [sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(told)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "stopped\n", "")


def test_a_hangup_is_handled_and_ends_nothing() -> None:
    program = [sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        for _ in range(2):
            process.send_signal(signal.SIGHUP)
            assert process.stdout.readline() == "hung up\n"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "stopped\n", "")
