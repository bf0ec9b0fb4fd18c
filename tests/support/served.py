# SPDX-License-Identifier: Apache-2.0
"""Real `kilonova api` process: start, SIGKILL, restart, and HTTP requests."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from kilonova.bundled_services.free_ports import free_port
from support.control import UNLIMITED
from support.forked_commands import ForkedCommand


class Served:
    """Data folder with its configuration; at most one process runs on it at a time.

    ``is_forked``: if False, the process imports all modules itself, as a user's does.
    """

    is_forked = True

    def __init__(self, folder: Path, scenario: str = "hosts: 3\nimages: [{name: cirros}]\n", **options: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.config = folder / "kilonova.conf"
        (folder / "scenario.yaml").write_text(scenario)
        connection = options.pop("connection", f"sqlite:///{folder / 'kilonova.db'}")
        more = "".join(f"{line}\n" for line in options.values())
        self.config.write_text(
            f"[api]\nauth_strategy = noauth2\nbind = 127.0.0.1:{self.port}\n"
            f"[database]\nconnection = {connection}\n"
            f"[fake]\nstate_dir = {folder / 'hypervisors'}\nscenario = {folder / 'scenario.yaml'}\n{UNLIMITED}{more}"
        )
        self.process: subprocess.Popen[bytes] | ForkedCommand | None = None
        self.log = folder / "log"

    def run(self, timeout_s: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command until it exits."""
        with tempfile.TemporaryDirectory() as folder:  # the disk of the cloud may be full
            out, errors = Path(folder, "out"), Path(folder, "errors")
            command = ForkedCommand(self._arguments(), out, environment, errors=errors)
            try:
                status = command.wait(timeout_s)
            finally:
                command.send_signal(signal.SIGKILL)
            return subprocess.CompletedProcess(self._arguments(), status, out.read_text(), errors.read_text())

    def start(self, **environment: str) -> float:
        """Start and wait for the first response. Returns the seconds that this took."""
        began = time.monotonic()
        self.launch(**environment)
        assert self.process is not None
        while time.monotonic() < began + 60:
            assert self.process.poll() is None, self.log.read_text()
            try:
                self.call("GET", "/compute/")
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.01)
            else:
                return time.monotonic() - began
        raise AssertionError("no response within a minute\n" + self.log.read_text())

    def launch(self, **environment: str) -> None:
        """Start without waiting."""
        if self.is_forked:
            self.process = ForkedCommand(self._arguments(), self.log, environment)
        else:
            command = [sys.executable, "-m", "kilonova", *self._arguments()]
            given = {**os.environ, **environment}
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(command, stdout=log, stderr=log, env=given, start_new_session=True)

    def processes(self) -> list[psutil.Process]:
        """Pids of the process and its children, the process first."""
        assert self.process is not None
        parent = psutil.Process(self.process.pid)
        return [parent, *parent.children(recursive=True)]

    def kill(self, which: str = "parent") -> None:
        """Kill the parent or its worker with SIGKILL, and assert that all processes end."""
        everyone = self.processes()
        victim = everyone[0] if which == "parent" else everyone[-1]
        os.kill(victim.pid, signal.SIGKILL)
        self._reap(everyone)

    def stop(self) -> None:
        """Stop the process with SIGTERM."""
        if self.process is not None and self.process.poll() is None:
            everyone = self.processes()
            self.process.terminate()
            self._reap(everyone)

    def _reap(self, everyone: list[psutil.Process]) -> None:
        assert self.process is not None
        self.process.wait(30)
        _, alive = psutil.wait_procs(everyone, timeout=10)
        assert alive == [], "a child process outlived its parent"

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = "admin",
        **headers: str,
    ) -> tuple[int, Any]:
        """Send an HTTP request. Returns the status and the decoded body."""
        return call(self.port, method, path, body, token=token, **headers)

    def _arguments(self) -> list[str]:
        return ["api", "--config-file", str(self.config)]


def call(
    port: int, method: str, path: str, body: Any = None, *, token: str = "admin", **headers: str
) -> tuple[int, Any]:
    """Send an HTTP request to a port of loopback. Returns the status and the decoded body."""
    given: Mapping[str, str] = {
        "X-Auth-Token": token,
        "OpenStack-API-Version": "compute 2.100",
        "Content-Type": "application/json",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        method=method,
        headers=dict(given),
        data=None if body is None else json.dumps(body).encode(),
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")
