# SPDX-License-Identifier: Apache-2.0
"""Registration of starting hosts: their services, hypervisors, resource providers and guests."""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

import msgspec

from kilonova.conductor.hosts.guest_reports import Reported, read_report
from kilonova.db import aggregates, compute_nodes, host_agents, node_reports, services
from kilonova.db.core.transaction import Transaction
from kilonova.db.host_agents import Process
from kilonova.db.node_reports import ReportedProvider
from kilonova.errors import InvalidRequest
from kilonova.messaging.messages import HostsStarted
from kilonova.model.host import COMPUTE, NodeReport

#: Maximum size of a host's report in bytes. It is limited because reports are stored, and every mirror has all of them
#: in memory. The report of a host with thousands of devices has a tenth of this size.
MOST_BYTES = 2**20


def register_hosts(tx: Transaction, message: HostsStarted, process: Process, lease: timedelta) -> Reported:
    """Register starting hypervisors, and return the consequences of the guests that they report.

    ``process``: process that runs the agents of these hosts. ``lease``: duration of that process's lease from now on.
    Raises: Conflict or InvalidRequest if a report is invalid.
    """
    if process.agent is not None:
        _require_bounded(message.reports)
    hosts = [report.host for report in message.reports]
    known = services.ensure_all(tx, hosts, COMPUTE)
    nodes = compute_nodes.report_all(tx, message.reports)
    new = node_reports.ensure_all(
        tx,
        [
            ReportedProvider(node.uuid, report.hypervisor_hostname, report.inventories, report.traits)
            for node, report in zip(nodes, message.reports, strict=True)
        ],
    )
    hosts_with_new = {node.host for node in nodes if node.uuid in new}
    for host in aggregates.members_among(tx.connection, hosts_with_new):
        aggregates.mirror_into_placement(tx, host)
    for host in sorted(hosts_with_new):
        if known[host].disabled:
            services.mark_providers(tx, host, disabled=True)
    host_agents.register(tx, process, hosts, lease)
    reported = read_report(tx.connection, message, tx.now)
    reported.store(tx)
    return replace(reported, new_services=tuple(each for each in known.values() if each.created_at == tx.now))


def _require_bounded(reports: Collection[NodeReport]) -> None:
    """Check the size of an agent's reports, because the agent may be malicious. Raises: InvalidRequest."""
    for report in reports:
        size = len(msgspec.json.encode(report))
        if size > MOST_BYTES:
            raise InvalidRequest(f"The report of host {report.host} has {size} bytes, more than {MOST_BYTES}.")
