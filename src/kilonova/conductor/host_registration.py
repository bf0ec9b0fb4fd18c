# SPDX-License-Identifier: Apache-2.0
"""Hosts that start: their services, hypervisors and resource providers, and the guests that do not belong on them."""

from datetime import timedelta

from kilonova.db import aggregates, compute_nodes, host_agents, instances, node_reports, providers, services
from kilonova.db.host_agents import Process
from kilonova.db.transaction import Transaction
from kilonova.messaging.messages import HostsStarted, Orphans
from kilonova.model.host import COMPUTE


def register_hosts(tx: Transaction, message: HostsStarted, process: Process, lease: timedelta) -> Orphans:
    """Register hypervisors that start and tell which of their guests do not belong there.

    ``process``: has their agents from now on. ``lease``: how long it counts as alive from now on.
    """
    for report in message.reports:
        service = services.ensure(tx, report.host, COMPUTE)
        node = compute_nodes.report(tx, report)
        is_new = providers.find(tx.connection, node.uuid) is None
        node_reports.ensure_for_node(tx, node.uuid, report.hypervisor_hostname, report.inventories, report.traits)
        if is_new:
            aggregates.mirror_into_placement(tx, report.host)
            services.mark_providers(tx, report.host, disabled=service.disabled)
    hosts = [report.host for report in message.reports]
    host_agents.register(tx, process, hosts, lease)
    orphans: dict[str, tuple[str, ...]] = {}
    unknown: dict[str, tuple[str, ...]] = {}
    for host in hosts:
        guests = tuple(message.guests.get(host, ()))
        places = instances.hosts_of(tx.connection, guests)
        orphans[host] = tuple(uuid for uuid in guests if uuid in places and host not in places[uuid])
        unknown[host] = tuple(uuid for uuid in guests if uuid not in places)
    return Orphans(
        {host: uuids for host, uuids in orphans.items() if uuids},
        {host: uuids for host, uuids in unknown.items() if uuids},
        lease.total_seconds(),
    )
