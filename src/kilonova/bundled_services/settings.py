# SPDX-License-Identifier: Apache-2.0
"""Settings of bundled services. Each service has a JSON file, of mode 0600 because it contains passwords."""

import dataclasses
import json
from pathlib import Path

from kilonova.bundled_services.private_file import write_private
from kilonova.records import dataclass

#: Size in bytes at which a log file of ``kilonova up`` is rotated, and number of rotated files that are kept.
LOG_BYTES = 20 * 2**20
LOGS_KEPT = 5


@dataclass(frozen=True, slots=True)
class Account:
    """A user with roles in one project, both in the domain ``Default``."""

    user: str
    password: str
    project: str
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One service of Keystone's catalogue, with the URL that clients use."""

    service_type: str
    name: str
    url: str


@dataclass(frozen=True, slots=True)
class KeystoneSettings:
    """Settings of Keystone. ``accounts[0]`` is the administrator.

    ``catalog`` includes Keystone itself, as ``identity``. ``withdrawn``: types of services that are removed from the
    catalogue if an earlier start added them.
    """

    folder: str
    host: str
    port: int
    region: str
    accounts: tuple[Account, ...]
    catalog: tuple[CatalogEntry, ...]
    withdrawn: tuple[str, ...] = ()
    log_file: str | None = None


@dataclass(frozen=True, slots=True)
class GlanceSettings:
    """Settings of Glance. ``service``: account with which Glance validates tokens; ``auth_url``: URL of Keystone."""

    folder: str
    host: str
    port: int
    url: str
    auth_url: str
    region: str
    service: Account
    log_file: str | None = None


@dataclass(frozen=True, slots=True)
class OvnDatabases:
    """Connections to the databases of OVN, such as ``unix:/path``."""

    northbound: str
    southbound: str


@dataclass(frozen=True, slots=True)
class NeutronSettings:
    """Settings of Neutron.

    ``auth_url``: URL of Keystone; "": requests without a token are accepted and have all rights, for tests.
    ``service``: account with which Neutron validates tokens and notifies the compute service. ``mechanism``: ML2
    mechanism that binds ports, one of ``neutron_conf.MECHANISMS``. ``ovn``: databases for the mechanism ``ovn``.
    """

    folder: str
    host: str
    port: int
    auth_url: str
    region: str
    service: Account
    mechanism: str = "simulated"
    log_file: str | None = None
    ovn: OvnDatabases | None = None


@dataclass(frozen=True, slots=True)
class MetadataSettings:
    """Settings of the metadata service of real guests.

    ``agent``: path of the socket of the host's agent, which answers requests.
    ``southbound``, ``switch``: connections to the databases of OVN and Open vSwitch. ``namespace``: name of the network
    namespace of the guests. ``control``: path of the socket on which the service listens when it is ready.
    ``certificate``: folder and name of the certificate for a southbound database that is reached over TLS.
    """

    agent: str
    southbound: str
    switch: str
    namespace: str
    control: str
    certificate: tuple[str, str] | None = None


def save(settings: KeystoneSettings | GlanceSettings | NeutronSettings | MetadataSettings, path: Path) -> None:
    write_private(path, json.dumps(dataclasses.asdict(settings), indent=2) + "\n")


def load_keystone(path: Path) -> KeystoneSettings:
    data = json.loads(path.read_text(encoding="utf-8"))
    data["accounts"] = tuple(Account(**{**entry, "roles": tuple(entry["roles"])}) for entry in data["accounts"])
    data["catalog"] = tuple(CatalogEntry(**entry) for entry in data["catalog"])
    data["withdrawn"] = tuple(data["withdrawn"])
    return KeystoneSettings(**data)


def load_glance(path: Path) -> GlanceSettings:
    data = json.loads(path.read_text(encoding="utf-8"))
    data["service"] = Account(**{**data["service"], "roles": tuple(data["service"]["roles"])})
    return GlanceSettings(**data)


def load_neutron(path: Path) -> NeutronSettings:
    data = json.loads(path.read_text(encoding="utf-8"))
    data["service"] = Account(**{**data["service"], "roles": tuple(data["service"]["roles"])})
    if data.get("ovn") is not None:
        data["ovn"] = OvnDatabases(**data["ovn"])
    return NeutronSettings(**data)


def load_metadata(path: Path) -> MetadataSettings:
    data = json.loads(path.read_text(encoding="utf-8"))
    if data["certificate"] is not None:
        data["certificate"] = tuple(data["certificate"])
    return MetadataSettings(**data)
