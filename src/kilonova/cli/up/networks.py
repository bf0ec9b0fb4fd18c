# SPDX-License-Identifier: Apache-2.0
"""Neutron of ``kilonova up --networks``, and the options with which the control process uses it.

If the cloud is later started without ``--networks``, it keeps Neutron's database, but has no network service.
"""

from pathlib import Path

from kilonova.bundled_services.settings import Account, NeutronSettings, OvnDatabases, save
from kilonova.cli.up.children import Child
from kilonova.cli.up.cloud_files import REGION, Accounts, Cloud, login_of
from kilonova.cli.wiring.addresses import Address
from kilonova.records import dataclass
from kilonova.scenario.options import Sections

NAME = "neutron"
#: Names of the first networks: one for servers, and the external one.
PRIVATE, PUBLIC = "private", "public"


@dataclass(frozen=True, slots=True)
class NetworkPart:
    """Neutron of a cloud. ``python``: interpreter of Neutron's environment.

    ``ovn``: databases of OVN, which connects real guests; None in a cloud of simulated hosts.
    ``linux``: image of a new cloud whose guests use their networks; None: the boot sector.
    """

    folder: Path
    address: Address
    python: str
    ovn: OvnDatabases | None = None
    linux: Path | None = None

    @property
    def mark(self) -> Path:
        """The file that is written when the first networks have been created."""
        return self.folder / NAME / "seeded"

    def options(self, cloud: Cloud, people: Accounts) -> Sections:
        """Return the options with which the control process uses Neutron."""
        return {
            "neutron": {
                **login_of(cloud, people.service),
                "endpoint_override": self.address.local_url,
                "default_floating_pool": PUBLIC,
            }
        }

    def write(self, cloud: Cloud, account: Account) -> Path:
        """Write Neutron's settings file and return its path."""
        (self.folder / NAME).mkdir(mode=0o700, exist_ok=True)
        file = self.folder / NAME / "settings.json"
        settings = NeutronSettings(
            folder=str(self.folder / NAME),
            host=self.address.host,
            port=self.address.port,
            auth_url=f"{cloud.identity.local_url}/identity",
            region=REGION,
            service=account,
            mechanism="simulated" if self.ovn is None else "ovn",
            log_file=str(cloud.log(NAME)),
            ovn=self.ovn,
        )
        save(settings, file)
        return file

    def start(self, cloud: Cloud, account: Account) -> Child:
        """Write the settings file, and start Neutron. The parameters are those of :meth:`write`."""
        file = self.write(cloud, account)
        command = (self.python, "-m", "kilonova.bundled_services.neutron", "--settings", str(file))
        return Child(NAME, command, cloud.log(NAME), f"{self.address.local_url}/", self.folder)
