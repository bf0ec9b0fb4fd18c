# SPDX-License-Identifier: Apache-2.0
"""Running cloud with the stock clients and the `kilonova` commands."""

import json
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import yaml

from support.stock_client import run_client
from support.supervisor import Supervisor

_TIMEOUT_S = 60.0


@dataclass
class StockCloud:
    """Running cloud and the stock ``openstack`` client."""

    supervisor: Supervisor

    def run(self, *words: str, cloud: str = "kilonova") -> subprocess.CompletedProcess[str]:
        """Run one ``openstack`` command, without checking its result."""
        named = {"OS_CLIENT_CONFIG_FILE": str(self.supervisor.folder / "clouds.yaml"), "COLUMNS": "200"}
        return run_client(("--os-cloud", cloud, *words), named)

    def do(self, *words: str, cloud: str = "kilonova") -> str:
        """Run one ``openstack`` command that must succeed, and return its output."""
        done = self.run(*words, cloud=cloud)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def nova(self, *words: str, cloud: str = "kilonova", typed: str = "") -> str:
        """Run one command of the legacy client ``nova`` that must succeed, and return its output."""
        done = self.run_nova(*words, cloud=cloud, typed=typed)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def run_nova(self, *words: str, cloud: str = "kilonova", typed: str = "") -> subprocess.CompletedProcess[str]:
        """Run one ``nova`` command, with credentials from variables, without checking its result."""
        clouds = yaml.safe_load((self.supervisor.folder / "clouds.yaml").read_text(encoding="utf-8"))["clouds"]
        named = {f"OS_{name.upper()}": str(value) for name, value in clouds[cloud]["auth"].items()}
        return run_client(words, {**named, "COLUMNS": "200"}, client="nova", typed=typed)

    def show(self, *words: str, cloud: str = "kilonova") -> Any:
        """Run one command that must succeed, and return its JSON output."""
        return json.loads(self.do(*words, "-f", "json", cloud=cloud))

    def refused(self, *words: str, cloud: str = "kilonova-demo") -> str:
        """Run one command that must fail, and return its error message."""
        done = self.run(*words, cloud=cloud)
        assert done.returncode == 1, (words, done.stdout)
        return done.stderr

    def together(self, *commands: Sequence[str], cloud: str = "kilonova") -> list[str]:
        """Run independent commands that must succeed, two at a time."""
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda words: self.do(*words, cloud=cloud), commands))

    def shown_together(self, *commands: Sequence[str]) -> list[Any]:
        """Return the JSON outputs of independent commands."""
        return [json.loads(printed) for printed in self.together(*((*words, "-f", "json") for words in commands))]

    def kilonova(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one `kilonova` command against the cloud, without checking its result."""
        named = (*words, "--data", str(self.supervisor.folder))
        return run_client(named, {"COLUMNS": "200"}, client="kilonova", timeout_s=300)

    def demo(self, scenario: str) -> subprocess.CompletedProcess[str]:
        """Run `kilonova demo` against the cloud, with forked ``openstack`` commands, without checking its result."""
        named = (scenario, "--data", str(self.supervisor.folder))
        return run_client(named, {"COLUMNS": "200"}, client="kilonova demo", timeout_s=300)

    def places(self, prefix: str) -> dict[str, str]:
        """Wait until the servers whose names start with ``prefix`` settle; return name → host, or its status."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            listed = self.show("server", "list", "--all-projects", "--long")
            mine = {server["Name"]: server for server in listed if server["Name"].startswith(prefix)}
            if all(server["Status"] != "BUILD" for server in mine.values()) or time.monotonic() > deadline:
                return {
                    name: server["Host"] if server["Status"] == "ACTIVE" else server["Status"]
                    for name, server in mine.items()
                }
