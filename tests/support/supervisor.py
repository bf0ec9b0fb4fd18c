# SPDX-License-Identifier: Apache-2.0
"""Real `kilonova up` process: a whole cloud on free ports, watched with all its children."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import requests
import yaml

from kilonova.bundled_services.free_ports import free_port, free_ports


@dataclass
class Supervisor:
    """A ``kilonova up`` on free ports. ``arguments``: follow those for folders and ports."""

    folder: Path
    command: Sequence[str] = (sys.executable, "-m", "kilonova", "up")
    arguments: Sequence[str] = ()
    ports: list[int] = field(default_factory=lambda: free_ports(3))
    console_ports: list[int] = field(default_factory=lambda: free_ports(2))
    network_port: int = field(default_factory=free_port)
    environment: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    lines: list[str] = field(default_factory=list)

    def start(self) -> "Supervisor":
        self.began = time.monotonic()
        compute, identity, image = self.ports
        arguments = ["--data", str(self.folder), "--bind", f"127.0.0.1:{compute}"]
        arguments += ["--identity-port", str(identity), "--image-port", str(image)]
        vnc, serial = self.console_ports
        arguments += ["--novnc-port", str(vnc), "--serial-port", str(serial)]
        arguments += ["--network-port", str(self.network_port)]
        self.process = subprocess.Popen(
            [*self.command, *arguments, *self.arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environment},
        )
        return self

    def until_ready(self) -> "Supervisor":
        self.next_line("ready")
        self.seconds = time.monotonic() - self.began
        return self

    def next_line(self, text: str) -> str:
        """Return the next line of the output with ``text``, which must follow."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if text in line:
                return line
        raise AssertionError(self.lines, self.process.communicate())

    def descendant(self, mark: str) -> int:
        """Return the pid of the process below the supervisor whose command contains ``mark``."""
        found = [pid for pid in self.descendants() if mark.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert len(found) == 1, (mark, found)
        return found[0]

    def descendants(self) -> list[int]:
        """Return the pids of all processes below the supervisor."""
        parents = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
        below = {self.process.pid}
        while more := {pid for pid, parent in parents.items() if parent in below} - below:
            below |= more
        return sorted(below - {self.process.pid})

    def processor_s(self) -> float:
        """Return the processor time of the supervisor and its descendants so far, in seconds."""
        times = [psutil.Process(pid).cpu_times() for pid in (self.process.pid, *self.descendants())]
        return sum(each.user + each.system + each.children_user + each.children_system for each in times)

    def signal(self, number: int) -> int:
        """Signal the supervisor, wait for it, assert that all descendants end, and return its exit status."""
        watched = [os.pidfd_open(pid) for pid in self.descendants()]
        self.process.send_signal(number)
        status = self.process.wait(timeout=60)
        self.require_gone(watched)
        return status

    @staticmethod
    def require_gone(watched: list[int]) -> None:
        deadline = time.monotonic() + 5
        for each in watched:
            poll = select.poll()
            poll.register(each, select.POLLIN)
            assert poll.poll(max(0.0, deadline - time.monotonic()) * 1000), "a child process is still running"
            os.close(each)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        self.process.communicate()

    @property
    def identity(self) -> str:
        return f"http://127.0.0.1:{self.ports[1]}/identity/v3"

    @property
    def image(self) -> str:
        return f"http://127.0.0.1:{self.ports[2]}/v2"

    def token(self, cloud: str = "kilonova") -> requests.Response:
        auth = yaml.safe_load((self.folder / "clouds.yaml").read_text())["clouds"][cloud]["auth"]
        domain = {"name": "Default"}
        user = {"name": auth["username"], "password": auth["password"], "domain": domain}
        scope = {"project": {"name": auth["project_name"], "domain": domain}}
        identity = {"methods": ["password"], "password": {"user": user}}
        body = {"auth": {"identity": identity, "scope": scope}}
        return requests.post(f"{auth['auth_url']}/v3/auth/tokens", json=body, timeout=30)

    def session(self, cloud: str = "kilonova") -> requests.Session:
        session = requests.Session()
        reply = self.token(cloud)
        assert reply.status_code == 201, reply.text
        session.headers["X-Auth-Token"] = reply.headers["X-Subject-Token"]
        return session

    def images(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.session().get(f"{self.image}/images").json()["images"]
        return found
