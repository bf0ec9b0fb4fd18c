# SPDX-License-Identifier: Apache-2.0
"""Real `kilonova compute` processes on a real broker, beside control processes (``served.py``)."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from support.broker import Broker
from support.forked_commands import ForkedCommand
from support.waiting import wait_until


class AgentProcess:
    """Configuration folder of one agent process, which runs at most once at a time.

    ``hosts``: names of its simulated hosts. ``more``: configuration lines for all of them.
    """

    def __init__(self, folder: Path, url: str, more: str = "", *, state_dir: Path | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.config = folder / "agent.conf"
        self.hypervisors = state_dir or folder / "hypervisors"
        self.config.write_text(
            f"[DEFAULT]\ntransport_url = {url}\nreport_interval = 1\n"
            "[oslo_messaging_rabbit]\nrabbit_retry_interval = 0.2\nrabbit_retry_backoff = 0.2\n"
            "rabbit_interval_max = 1\n"
            f"[fake]\nstate_dir = {self.hypervisors}\n{more}"
        )
        self.log = folder / "agent.log"
        self.process: subprocess.Popen[bytes] | ForkedCommand | None = None

    def start(self, *options: str) -> "AgentProcess":
        """Start the process without waiting for it. ``options``: options of the Python interpreter."""
        arguments = ["compute", "--config-file", str(self.config)]
        if options:
            with self.log.open("ab") as log:
                command = [sys.executable, *options, "-m", "kilonova", *arguments]
                self.process = subprocess.Popen(command, stdout=log, stderr=log)
        else:
            self.process = ForkedCommand(arguments, self.log)
        return self

    def until_in_session(self) -> "AgentProcess":
        """Wait until the control process has accepted the agent's host report."""
        self.until_told("Session .* begins")
        return self

    def until_told(self, pattern: str, times: int = 1, *, at_most_s: float = 60) -> None:
        """Wait until the log contains the pattern ``times`` times."""
        wait_until(lambda: self.has_told(pattern) >= times, f"{self.folder.name}: {pattern}", at_most_s=at_most_s)

    def has_told(self, pattern: str) -> int:
        return len(re.findall(pattern, self.log.read_text())) if self.log.exists() else 0

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send the signal, wait for the process to exit, and return its exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(30)
        self.process = None
        return status

    def freeze(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.thaw()
            self.kill(signal.SIGKILL)

    @property
    def memory_mib(self) -> float:
        assert self.process is not None
        return float(psutil.Process(self.process.pid).memory_info().rss / 2**20)


def url_of(broker: Broker, user: str) -> str:
    """Return the transport_url of a user of the test broker."""
    return f"rabbit://{user}:{user}@127.0.0.1:{broker.server.port}/"
