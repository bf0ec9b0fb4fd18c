# SPDX-License-Identifier: Apache-2.0
"""Files of a data folder: passwords, ``kilonova.conf``, ``clouds.yaml`` and the settings of Keystone and Glance."""

import fcntl
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from kilonova.bundled_services.private_file import write_private
from kilonova.bundled_services.settings import (
    Account,
    CatalogEntry,
    GlanceSettings,
    KeystoneSettings,
    save,
)
from kilonova.cli.up.embedded_rules import rule_options
from kilonova.cli.up.log_options import log_options
from kilonova.cli.wiring.addresses import Address
from kilonova.errors import ConfigurationError, Unavailable
from kilonova.records import dataclass
from kilonova.scenario.options import Sections, conf_text, with_defaults

REGION = "RegionOne"


@dataclass(frozen=True, slots=True)
class Cloud:
    """One cloud on this machine: its data folder and the addresses of its services. ``network``: Neutron's, if any."""

    folder: Path
    compute: Address
    identity: Address
    image: Address
    hosts: int
    scenario: Path | None = None
    network: Address | None = None

    @property
    def auth_url(self) -> str:
        return f"{self.identity.public_url}/identity"

    @property
    def conf(self) -> Path:
        return self.folder / "kilonova.conf"

    @property
    def clouds_yaml(self) -> Path:
        return self.folder / "clouds.yaml"

    def log(self, name: str) -> Path:
        return self.folder / "log" / f"{name}.log"


@dataclass(frozen=True, slots=True)
class Accounts:
    """The Keystone accounts of a cloud: administrator, services, member of project "demo", and console proxy.

    ``neutron``: Neutron's account; None if the cloud has always been without networks.
    """

    admin: Account
    service: Account
    demo: Account
    console: Account
    neutron: Account | None = None

    def all(self) -> tuple[Account, ...]:
        """Return all accounts, the administrator first."""
        return (self.admin, self.service, self.demo, self.console, *([self.neutron] if self.neutron else []))


def make_folder(folder: Path) -> tuple[Path, ...]:
    """Create the data folder with mode 0700, and remove other users' access to its folders and databases.

    Return the paths from which access was removed. Raises: ConfigurationError.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        inner = [folder / name for name in ("log", "keystone", "glance", "hypervisors")]
        for each in inner:
            each.mkdir(mode=0o700, exist_ok=True)
        inner += folder.glob("neutron")
        databases = [path for each in (folder, *inner) for path in each.glob("*.db*")]
        exposed = tuple(path for path in (folder, *inner, *databases) if path.stat().st_mode & 0o077)
        for path in exposed:
            path.chmod(0o700 if path.is_dir() else 0o600)
    except OSError as error:
        raise ConfigurationError(f"cannot use the data folder {folder}: {error.strerror}") from error
    return exposed


def lock_folder(folder: Path) -> int:
    """Lock the folder until this process exits. Return the lock's file descriptor. Raises: Unavailable."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(lock, 32, 0).decode(errors="replace").strip()
        os.close(lock)
        raise Unavailable(f"the data folder {folder} is in use by another `kilonova` (process {owner})") from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def accounts(folder: Path, *, networks: bool = False) -> Accounts:
    """Read the accounts of a data folder. Missing passwords are created at random and stored.

    ``networks``: whether Neutron needs an account. An existing account of Neutron is kept even if it is not needed,
    because new accounts would revoke tokens.
    """
    path = folder / "passwords.json"
    passwords: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    wanted = {"admin", "service", "demo", "console", *(["neutron"] if networks else [])}
    missing = wanted - passwords.keys()
    if missing:
        passwords.update({name: secrets.token_urlsafe(24) for name in missing})
        write_private(path, json.dumps(passwords, indent=2) + "\n")
    return Accounts(
        admin=Account("admin", passwords["admin"], "admin", ("admin",)),
        service=Account("service", passwords["service"], "service", ("admin", "service")),
        demo=Account("demo", passwords["demo"], "demo", ("member",)),
        console=Account("console", passwords["console"], "service", ("service",)),
        neutron=Account("neutron", passwords["neutron"], "service", ("service",)) if "neutron" in passwords else None,
    )


def write_bundled_settings(cloud: Cloud, people: Accounts) -> None:
    """Write the settings files of Keystone and Glance. The service catalogue gets the cloud's current addresses."""
    compute = cloud.compute.public_url
    keystone = KeystoneSettings(
        folder=str(cloud.folder / "keystone"),
        host=cloud.identity.host,
        port=cloud.identity.port,
        region=REGION,
        log_file=str(cloud.log("keystone")),
        accounts=people.all(),
        catalog=(
            CatalogEntry("identity", "keystone", cloud.auth_url),
            CatalogEntry("image", "glance", cloud.image.public_url),
            CatalogEntry("compute", "kilonova", f"{compute}/compute/v2.1"),
            CatalogEntry("placement", "placement", f"{compute}/placement"),
            CatalogEntry("kilonova", "kilonova-operator", f"{compute}/operator/v1"),
            *([CatalogEntry("network", "neutron", cloud.network.public_url)] if cloud.network else []),
        ),
        withdrawn=() if cloud.network else ("network",),
    )
    glance = GlanceSettings(
        folder=str(cloud.folder / "glance"),
        host=cloud.image.host,
        port=cloud.image.port,
        url=cloud.image.public_url,
        auth_url=f"{cloud.identity.local_url}/identity",
        region=REGION,
        service=people.service,
        log_file=str(cloud.log("glance")),
    )
    save(keystone, cloud.folder / "keystone" / "settings.json")
    save(glance, cloud.folder / "glance" / "settings.json")


def login_of(cloud: Cloud, account: Account) -> dict[str, str]:
    """Return keystoneauth's options for logging in as ``account``, for a section of a configuration file."""
    return {
        "auth_url": f"{cloud.identity.local_url}/identity",
        "auth_type": "password",
        "username": account.user,
        "password": account.password,
        "project_name": account.project,
        "user_domain_name": "Default",
        "project_domain_name": "Default",
        "region_name": REGION,
    }


def write_conf(
    cloud: Cloud,
    people: Accounts | None,
    scenario_options: Sections | None = None,
    operator_options: Sections | None = None,
    *,
    broker: Sections | None = None,
    parts: Sequence[Sections] = (),
) -> None:
    """Write ``kilonova.conf`` with the options of the supervisor, the scenario's options, and default scheduling rules.

    ``people``: accounts of the bundled Keystone; None: the options of the identity and image services are in the
    operator's file.
    ``operator_options``: the options in the operator's file, which the control process reads after ``kilonova.conf``.
    ``broker``: options of the connection to the broker, if agent processes run the hosts. ``parts``: options of the
    console proxy, the libvirt host and so on.
    """
    sections: dict[str, Mapping[str, object]] = {
        **log_options(cloud.log("control")),
        "api": {"bind": cloud.compute.text},
        "database": {"connection": f"sqlite:///{cloud.folder / 'kilonova.db'}"},
        "fake": {
            "hosts": cloud.hosts,
            "state_dir": cloud.folder / "hypervisors",
            **({"scenario": cloud.scenario} if cloud.scenario else {}),
        },
        # A cloud on one machine has no default quotas; `openstack quota set` can still limit a project.
        "quota": {"instances": -1, "cores": -1, "ram": -1},
    }
    if people is not None:
        sections["api"] = {"auth_strategy": "keystone", **sections["api"]}
        login = login_of(cloud, people.service)
        sections["keystone_authtoken"] = {
            "www_authenticate_uri": cloud.auth_url,
            **login,
            "service_token_roles_required": "true",
            "include_service_catalog": "false",
        }
        sections["oslo_limit"] = {**login, "endpoint_service_type": "compute"}
        sections["service_user"] = login
        sections["glance"] = {"endpoint_override": cloud.image.local_url}
    if broker is not None:
        sections["fake"] = {}
        sections = dict(with_defaults(sections, broker))
    for part in parts:
        sections = dict(with_defaults(sections, part))
    header = "# Written at every start by `kilonova up`; put your own settings in a file given as --config-file.\n"
    rules = rule_options(scenario_options or {}, operator_options or {})
    write_private(cloud.conf, header + conf_text(with_defaults(with_defaults(sections, scenario_options or {}), rules)))


def write_clouds_yaml(cloud: Cloud, people: Accounts) -> None:
    """Write ``clouds.yaml`` with the clouds ``kilonova`` (administrator) and ``kilonova-demo`` (ordinary member)."""
    clouds = {
        name: {
            "auth": {
                "auth_url": cloud.auth_url,
                "username": account.user,
                "password": account.password,
                "project_name": account.project,
                "user_domain_name": "Default",
                "project_domain_name": "Default",
            },
            "region_name": REGION,
            "identity_api_version": 3,
        }
        for name, account in (("kilonova", people.admin), ("kilonova-demo", people.demo))
    }
    write_private(cloud.clouds_yaml, yaml.safe_dump({"clouds": clouds}, sort_keys=False))
