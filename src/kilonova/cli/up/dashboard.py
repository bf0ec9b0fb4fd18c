# SPDX-License-Identifier: Apache-2.0
"""The dashboard of ``kilonova up --dashboard``, with a configuration file of its own."""

from pathlib import Path

from kilonova.bundled_services.private_file import write_private
from kilonova.cli.up.children import RUN_MODULE, Child
from kilonova.cli.up.log_options import log_options
from kilonova.cli.wiring.addresses import Address
from kilonova.records import dataclass
from kilonova.scenario.options import conf_text


@dataclass(frozen=True, slots=True)
class DashboardPart:
    """The dashboard of a cloud with its own Keystone: its address, and its files in the data folder."""

    folder: Path
    address: Address

    @property
    def log(self) -> Path:
        return self.folder / "log" / "dashboard.log"

    def needed(self) -> dict[str, Address]:
        return {"the dashboard (--dashboard-port)": self.address}

    def start(self, auth_url: str, kind: type[Child] = Child) -> Child:
        """Write the configuration file, and start the dashboard. ``kind``: how its process is started."""
        file = self.write(auth_url)
        command = (*RUN_MODULE, "kilonova", "dashboard", "--config-file", str(file))
        return kind("dashboard", command, self.log, f"{self.address.local_url}/healthcheck", self.folder)

    def write(self, auth_url: str) -> Path:
        """Write the configuration file and return its path. ``auth_url``: Keystone's URL."""
        options = {
            **log_options(self.log),
            "dashboard": {"auth_url": auth_url, "host": self.address.host, "port": self.address.port},
        }
        file = self.folder / "dashboard.conf"
        write_private(file, f"# Written at every start by `kilonova up`.\n{conf_text(options)}")
        return file

    def announcement(self, clouds_yaml: Path) -> str:
        """Return the line that tells how to sign in."""
        return f"Dashboard: {self.address.public_url}/ for the users in {clouds_yaml}, such as admin"
