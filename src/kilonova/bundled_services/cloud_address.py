# SPDX-License-Identifier: Apache-2.0
"""Note, in the data folder of a cloud, of the address at which hosts of other machines reach the cloud's OVN."""

import json
from collections.abc import Sequence
from pathlib import Path

from kilonova.bundled_services.private_file import write_private
from kilonova.errors import ConfigurationError
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class CloudAddress:
    """The note ``file``."""

    file: Path

    @classmethod
    def of_cloud(cls, folder: Path) -> "CloudAddress":
        """Return the note of the cloud with this data folder."""
        return cls(folder / "ovn" / "address.json")

    def write(self, southbound: str, hosts: Sequence[str], *, tunnels: bool) -> None:
        """Write the note.

        ``southbound``: the southbound database. ``hosts``: hosts of the cloud's own machine. ``tunnels``: whether they
        have tunnels to other machines.
        """
        content = {"southbound": southbound, "hosts": list(hosts), "tunnels": tunnels}
        write_private(self.file, json.dumps(content, indent=2) + "\n")

    def remove(self) -> None:
        """Remove the note; no error if it is absent."""
        self.file.unlink(missing_ok=True)

    def southbound_for(self, host: str) -> str:
        """Return the southbound database's address for a host of another machine.

        Raises: ConfigurationError if such a host cannot join the cloud.
        """
        try:
            noted = json.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigurationError(
                "hosts of other machines cannot reach this cloud: start it with `kilonova up --hypervisor libvirt "
                "--networks --ovn-address ADDRESS` first"
            ) from None
        if not noted["tunnels"]:
            raise ConfigurationError(
                "hosts of other machines have no tunnels to this cloud: its --ovn-address must be an IPv4 address that "
                "they reach, and --libvirt-hosts must be 1"
            )
        if host in noted["hosts"]:
            raise ConfigurationError(f"{host} is a host of the cloud's own machine")
        return str(noted["southbound"])
