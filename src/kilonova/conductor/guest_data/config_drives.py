# SPDX-License-Identifier: Apache-2.0
"""Contents of servers' config drives that are not part of the guest description."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Any

from cachetools import TTLCache
from sqlalchemy.engine import Connection

from kilonova.db import aggregates, keypairs
from kilonova.db.database import Database
from kilonova.errors import NotFound
from kilonova.model.config_drive import ConfigDrive, PublicKey
from kilonova.model.instance import Instance
from kilonova.model.request_spec import StoredRequest
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
_MOST_PASSWORDS, _KEPT_S = 10_000, 3600.0


class AdminPasswords:
    """Cache of the admin passwords of guests that are not built yet. In memory only: passwords must not be stored."""

    def __init__(self) -> None:
        self._passwords: TTLCache[str, str] = TTLCache(_MOST_PASSWORDS, _KEPT_S)
        self._lock = threading.Lock()

    def remember(self, uuids: Collection[str], password: str | None) -> None:
        if password is not None:
            with self._lock:
                self._passwords.update(dict.fromkeys(uuids, password))

    def find(self, uuid: str) -> str | None:
        with self._lock:
            found: str | None = self._passwords.get(uuid)
        return found

    def forget(self, uuid: str) -> None:
        with self._lock:
            self._passwords.pop(uuid, None)


@dataclass(frozen=True, slots=True)
class ConfigDrives:
    """Builder of the contents of config drives.

    ``default_zone``: name of the availability zone for hosts without one. ``domain``: configured DNS domain of the
    guests. ``vendor_data``: returns the operator's metadata. ``passwords``: admin passwords of new servers.
    """

    default_zone: str = "nova"
    domain: str = ""
    vendor_data: Callable[[], Mapping[str, Any]] = dict
    passwords: AdminPasswords = field(default_factory=AdminPasswords)

    def of(self, database: Database, instance: Instance, request: StoredRequest, host: str) -> ConfigDrive | None:
        """Return the contents of an instance's config drive on a host; None if the instance has none."""
        return self.contents(database, instance, request, host) if instance.config_drive else None

    def contents(self, database: Database, instance: Instance, request: StoredRequest, host: str | None) -> ConfigDrive:
        """Return what an instance's config drive contains, or would contain. ``host``: host of the instance, if any."""
        with database.read() as connection:
            zones = {} if host is None else aggregates.zones_of_hosts(connection, {host})
            key = request.key
            if instance.key_name is None:
                key = None
            elif key is None or key.name != instance.key_name:
                key = _present_key(connection, instance)
        return ConfigDrive(
            display_name=instance.name,
            availability_zone=zones.get(host or "", self.default_zone),
            launch_index=instance.launch_index,
            reservation_id=instance.reservation_id,
            domain=self.domain,
            flavor_name=instance.flavor.name,
            key=key,
            vendor_data=self.vendor_data(),
            admin_pass=self.passwords.find(instance.uuid),
        )


def _present_key(connection: Connection, instance: Instance) -> PublicKey | None:
    """Return the public key of a server, read from its user's key pairs by name; None if the key pair was deleted."""
    try:
        return keypairs.get(connection, instance.user_id, instance.key_name or "").public_half
    except NotFound:
        LOG.warning("Server %s: key pair %s was deleted; the config drive has no key", instance.uuid, instance.key_name)
        return None
