# SPDX-License-Identifier: Apache-2.0
"""One process of Open vSwitch or OVN. It is killed when the process that started it exits."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kilonova.bundled_services.daemon_probe import accepts_connections, wait_for_end, wait_until_ready
from kilonova.bundled_services.parent_death import die_with_parent
from kilonova.bundled_services.settings import LOG_BYTES

_START_S = 30.0
_STOP_S = 5.0
_LAST_LINES = 10


class OvsProcess:
    """A daemon that is ready when it accepts connections on a Unix socket. Start it from the main thread.

    ``socket``: path of this socket, in which ``{pid}`` stands for the pid. ``log``: file of the daemon's warnings.
    """

    def __init__(
        self, name: str, command: Sequence[str], socket: str, log: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = log
        self.pidfd = -1
        self._command = list(command)
        self._socket = socket
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        #: Called once after each start, as soon as the daemon listens, until it returns True; the daemon is ready then.
        self.when_listening: Callable[[], bool] = lambda: True
        self._is_complete = False

    def start(self) -> None:
        """Start the daemon without waiting until it is ready. Raises: OSError."""
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_name(f"{self.log.name}.1"))
        parent = os.getpid()
        self._is_complete = False
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=self._environment,
                start_new_session=True,  # Ctrl-C must reach the supervisor only
                preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509  one thread, no import after fork
            )
        self.pidfd = os.pidfd_open(self._process.pid)

    def answers(self) -> bool:
        """Return whether the daemon is ready."""
        if self._process is None or not accepts_connections(self._socket.format(pid=self._process.pid)):
            return False
        self._is_complete = self._is_complete or self.when_listening()
        return self._is_complete

    def wait(self) -> None:
        """Wait until the daemon is ready. Raises: Unavailable."""
        wait_until_ready(self, _START_S)

    def ended(self) -> bool:
        """Return whether the daemon has ended or was never started."""
        return self.pidfd < 0 or wait_for_end(self.pidfd, 0)

    def ending(self) -> str:
        status = None if self._process is None else self._process.poll()
        if status is None:
            return "has not started"
        return f"ended with exit status {status}" if status >= 0 else f"was killed by {signal.Signals(-status).name}"

    def obituary(self) -> str:
        """Return how the daemon ended, with the last lines of its log."""
        lines = self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        return "\n  ".join([f"{self.name} {self.ending()}; the last lines of {self.log}:", *lines])

    def stop(self) -> None:
        """Stop the daemon with SIGTERM, or with SIGKILL after a timeout. No error if it has ended or never started."""
        if not self.ended():
            for number in (signal.SIGCONT, signal.SIGTERM):  # a process stopped by SIGSTOP does not handle SIGTERM
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self.pidfd, number)
            wait_for_end(self.pidfd, _STOP_S)
        self.kill()

    def kill(self) -> None:
        """Kill the daemon. It can be started again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            os.close(self.pidfd)
            self._process, self.pidfd = None, -1

    def restart(self) -> None:
        """Start the daemon again after it has ended. Call it in the main thread. Raises: OSError."""
        self.kill()
        self.start()
