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


_AT_ONCE = """
import itertools, os, signal, threading
from kilonova.server.serving import serve_until_told

started = threading.Event()

class Server:
    def start(self):
        started.set()

    def stop(self):
        pass

def stop_soon():
    for turn in itertools.count():
        started.wait()
        started.clear()
        for _ in range(turn * 37 % 400):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=stop_soon, daemon=True).start()
for _ in range(3000):
    serve_until_told(Server())
print("stopped each time", flush=True)
os._exit(0)
"""


def test_a_signal_at_the_moment_of_the_wait_is_not_lost() -> None:
    """Between the last check of the interpreter and the system call a handler does not run."""
    done = subprocess.run([sys.executable, "-c", _AT_ONCE], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped each time\n", "")
