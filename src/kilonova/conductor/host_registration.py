# SPDX-License-Identifier: Apache-2.0
"""Hosts that start: their services, hypervisors and resource providers, and their guests."""

from datetime import timedelta

from kilonova.conductor.guest_reports import Reported, read_report
from kilonova.db import aggregates, compute_nodes, host_agents, node_reports, providers, services
from kilonova.db.host_agents import Process
from kilonova.db.transaction import Transaction
from kilonova.messaging.messages import HostsStarted
from kilonova.model.host import COMPUTE


def register_hosts(tx: Transaction, message: HostsStarted, process: Process, lease: timedelta) -> Reported:
    """Register hypervisors that start and tell what follows from the guests that they have.

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
    reported = read_report(tx.connection, message, tx.now)
    reported.store(tx)
    return reported
