# SPDX-License-Identifier: Apache-2.0
"""Renewal of servers' cached interfaces: after events of the network service, and periodically.

::

    events ──▶ pending servers ──▶ one task on a thread that may block ──▶ cache

Events that arrive while the task runs wait for its next turn, so many events about a server cost one look-up. A failed
look-up is not repeated: the next event, or the periodic task, renews the cache.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta

from kilonova.conductor.operations.starting import Starter
from kilonova.db import instance_networks, instances
from kilonova.db.core.transaction import Transaction
from kilonova.errors import KilonovaError
from kilonova.model.instance import VmState
from kilonova.model.network_info import NetworkInfo, find_vif
from kilonova.network import ports

LOG = logging.getLogger(__name__)
#: Number of servers whose ports are looked up together.
_TOGETHER = 50


class NetworkCaches:
    """Operations that renew the cached interfaces of servers.

    ``lost``: called with a server and the id of a port that the network service no longer has.
    """

    def __init__(self, starter: Starter, lost: Callable[[str, str], object]) -> None:
        self._services = starter.services
        self._database = starter.services.database
        self._runner = starter.runner
        self._lost = lost
        self._lock = threading.Lock()
        #: Servers whose cache is to be renewed, in the order of their events; None if no task is running.
        self._pending: dict[str, None] | None = None

    def renew_soon(self, instance_uuids: Collection[str]) -> None:
        """Renew the caches of servers in the background."""
        if not instance_uuids or self._services.network_client is None:
            return
        with self._lock:
            is_idle = self._pending is None
            self._pending = {**(self._pending or {}), **dict.fromkeys(instance_uuids)}
        if is_idle:
            self._runner.run_blocking(self._work_off)

    def renew_old(self, age: timedelta) -> int:
        """Renew a batch of caches that were last renewed before ``age`` ago; return their number.

        Call this until it returns 0. It returns 0 as well if the network service does not answer.
        """
        if self._services.network_client is None:
            return 0
        with self._database.read() as connection:
            old = instance_networks.oldest(connection, self._database.clock.now() - age, _TOGETHER)
        return len(old) if self._renew(old) else 0

    def _work_off(self) -> None:
        while uuids := self._next():
            try:
                self._renew(uuids)
            except Exception:
                LOG.exception("The cached interfaces of %d servers could not be renewed", len(uuids))

    def _next(self) -> tuple[str, ...]:
        with self._lock:
            pending = self._pending or {}
            some = tuple(pending)[:_TOGETHER]
            self._pending = {uuid: None for uuid in pending if uuid not in some} if some else None
            return some

    def _renew(self, uuids: Collection[str]) -> bool:
        """Look up the ports of servers and store what has changed; return False after an error."""
        with self._database.read() as connection:
            servers = instances.get_many(connection, list(uuids))
            infos = instance_networks.infos_of(connection, uuids)
        # Servers that are being built are skipped: a build stores the interfaces itself.
        settled = {server.uuid for server in servers if server.vm_state is not VmState.BUILDING}
        infos = {uuid: info for uuid, info in infos.items() if uuid in settled}
        try:
            found = ports.refresh_all(self._services.network, infos)
            self._database.write(lambda tx: _store(tx, uuids, found))
        except KilonovaError as error:
            LOG.warning("The cached interfaces of %d servers could not be renewed: %s", len(infos), error.message)
            return False
        for uuid, info in infos.items():
            for vif in info:
                if find_vif(found[uuid], vif.port_id) is None:
                    self._lost(uuid, vif.port_id)
        return True


def _store(tx: Transaction, uuids: Collection[str], found: Mapping[str, NetworkInfo]) -> None:
    """Store the interfaces as the network service describes them.

    Interfaces that were attached meanwhile are kept, and interfaces that were detached meanwhile are not stored again.
    """
    present = instance_networks.infos_of(tx.connection, uuids)
    instance_networks.touch(tx, uuids)
    for uuid, info in present.items():
        renewed = tuple(find_vif(found.get(uuid, ()), vif.port_id) or vif for vif in info)
        if renewed == info:
            continue
        instance_networks.store_info(tx, uuid, renewed)
        if [vif.subnets for vif in renewed] != [vif.subnets for vif in info]:
            instances.change(tx, uuid)
