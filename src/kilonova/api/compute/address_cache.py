# SPDX-License-Identifier: Apache-2.0
"""Renews the cached addresses of servers after the API has changed them in the network service."""

import logging
from collections.abc import Mapping
from dataclasses import replace

from kilonova.api.http import Context
from kilonova.db import instance_networks, instances
from kilonova.db.core.transaction import Transaction
from kilonova.errors import KilonovaError, NotFound
from kilonova.model.network_info import NetworkInfo, VifSubnet
from kilonova.network import ports
from kilonova.network.port_owner import PortOwner

LOG = logging.getLogger(__name__)


def refresh_addresses(ctx: Context, *instance_uuids: str) -> None:
    """Renew the cached addresses of servers, and set ``updated_at`` of these servers.

    The network service has already made the requested change, so a failed refresh is only logged. The cache is then
    renewed later, after an event of the network service or by a periodic task. Ids that are not those of servers are
    ignored.
    """
    for uuid in instance_uuids:
        try:
            _refresh(ctx, uuid)
        except KilonovaError as error:
            LOG.warning("The cached addresses of server %s could not be renewed: %s", uuid, error.message)


def _refresh(ctx: Context, uuid: str) -> None:
    with ctx.read() as connection:
        instance, info = instances.find(connection, uuid), instance_networks.info_of(connection, uuid)
    network = ctx.backend.network
    if instance is None or network is None:
        return
    owner = PortOwner(instance_uuid=uuid, project_id=instance.project_id, zone="")
    found = {vif.port_id: vif.subnets for vif in ports.refresh(network, owner, info)}

    def job(tx: Transaction) -> None:
        # copy only the addresses: interfaces may have been attached or detached meanwhile
        present = instance_networks.info_of(tx.connection, uuid)
        instances.change(tx, uuid)
        instance_networks.store_info(tx, uuid, _with_addresses(present, found))

    try:
        ctx.write(job)
    except NotFound:
        return  # the server was deleted meanwhile


def _with_addresses(info: NetworkInfo, found: Mapping[str, tuple[VifSubnet, ...]]) -> NetworkInfo:
    return tuple(replace(vif, subnets=found.get(vif.port_id, vif.subnets)) for vif in info)
