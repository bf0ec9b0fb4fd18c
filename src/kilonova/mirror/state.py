# SPDX-License-Identifier: Apache-2.0
"""State of a mirror: the change log's values as columns, the assumed claims, and the tables built from them."""

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import field, replace
from typing import Any, assert_never

import msgspec

from kilonova.db.change_log.changes import (
    Change,
    LoggedAgents,
    LoggedAggregate,
    LoggedDevices,
    LoggedGroup,
    LoggedHeartbeat,
    LoggedInstance,
    LoggedIsolation,
    LoggedMetrics,
    LoggedNode,
    LoggedProcess,
    LoggedProvider,
    LoggedService,
    LoggedUse,
)
from kilonova.db.change_log.device_json import devices_from_logged
from kilonova.mirror.device_columns import DeviceColumns
from kilonova.mirror.directory import HostDirectory
from kilonova.mirror.groups import Groups
from kilonova.mirror.host_columns import HostColumns
from kilonova.mirror.instances import CopiedGuests, InstanceRows, Instances, PresentGuests
from kilonova.mirror.layout import Layout, ServiceFacts
from kilonova.mirror.metric_columns import MetricColumns
from kilonova.mirror.node_ids import NodeIds
from kilonova.mirror.provider_columns import ProviderColumns
from kilonova.model.aggregate import Aggregate
from kilonova.model.host_devices import DeviceShare
from kilonova.placement.provider_table import ProviderTable
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.guests import ChangedGuests, GuestKind, GuestTally
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.isolation_rules import rule_of
from kilonova.scheduler.live_hosts import LiveHosts
from kilonova.scheduler.memo import Memo
from kilonova.scheduler.row_changes import RowChanges

LOG = logging.getLogger(__name__)


class Assumption(msgspec.Struct, frozen=True):
    """An assumed claim: the resources that one pending claim will use.

    ``allocations``: provider uuid → resource class → amount.
    ``guest``: kind of the new instance, for rules that count the instances on a host.
    ``devices``: share of the NUMA cells and PCI pools of the node ``node_uuid``.
    """

    claim_id: str
    allocations: Mapping[str, Mapping[str, int]]
    host: str
    node: str
    group_uuid: str | None = None
    guest: GuestKind | None = None
    node_uuid: str = ""
    devices: DeviceShare | None = None


def _complain_of_broken_rule(aggregate: Aggregate) -> None:
    rule = rule_of(aggregate.metadata)
    for _, _, why in rule.broken if rule is not None else ():
        LOG.error("Hosts of aggregate %s (id %d) are closed to all servers: %s", aggregate.name, aggregate.id, why)


@dataclass(slots=True)
class MirrorState:
    """The state of the cloud after one commit. The caller must hold the mirror's lock; no method blocks.

    ``of_the_past``: True for a past state; then no errors are logged for invalid isolation rules.
    """

    of_the_past: bool = False
    assumed: dict[str, Assumption] = field(default_factory=dict)
    memo: Memo = field(default_factory=Memo)
    instances: Instances = field(init=False)
    providers: ProviderColumns = field(default_factory=ProviderColumns)
    groups: Groups = field(default_factory=Groups)
    node_ids: NodeIds = field(default_factory=NodeIds)
    _devices: DeviceColumns = field(default_factory=DeviceColumns)
    _hosts: HostColumns = field(init=False)
    _aggregates: dict[int, Aggregate] = field(default_factory=dict)
    _isolation_version: int = 0
    #: Counts of instances by kind. Created when a rule first needs such counts, then updated by each change.
    _guests: GuestTally | None = None
    _metrics: MetricColumns = field(default_factory=MetricColumns)
    _layout: Layout | None = None
    _service_facts: ServiceFacts | None = None
    _aggregate_index: AggregateIndex | None = None
    _zones: Mapping[str, str] | None = None
    _directory: HostDirectory | None = None
    #: The rows that changed since the layout was built. The layout is built again after any other change.
    _changes: RowChanges = field(default_factory=lambda: RowChanges(0))
    #: The live table, and the objects of which it is made: None, or another one of them, means that it is out of date.
    _live: tuple[LiveHosts, Layout, ServiceFacts, AggregateIndex] | None = None

    def __post_init__(self) -> None:
        self._hosts = HostColumns(self.node_ids)
        self.instances = Instances(self.node_ids)

    @classmethod
    def of(cls, changes: Iterable[Change], *, of_the_past: bool = False) -> "MirrorState":
        """Build the state from the changes of a complete load."""
        state = cls(of_the_past)
        with state.providers.filling():
            for change in changes:
                state.apply(change)
        return state

    # --- reading ------------------------------------------------------------------------------------------------------

    def live(self, lock: AbstractContextManager[Any], taken_at: float) -> LiveHosts:
        """Return the present hosts without copies, assumed claims included; a cached object until hosts change shape.

        ``lock``: the lock that guards this state. ``taken_at``: the time of a table that is not cached.
        """
        layout, services, aggregates = self._laid_out(), self._services(), self._aggregate_rows()
        known = self._live
        if known is None or known[1] is not layout or known[2] is not services or known[3] is not aggregates:
            table = self._table(lock, taken_at, self.providers.live_table)
            known = self._live = (
                LiveHosts(table, self._changes, services.last_seen),
                *(layout, services, aggregates),
            )
        return known[0]

    def hosts(self, lock: AbstractContextManager[Any], taken_at: float) -> HostTable:
        """Return the present hosts, assumed claims included. ``lock``: the lock that guards this state."""
        live = self._table(lock, taken_at, self.providers.table)
        return replace(
            live,
            used=live.used.copy(order="K"),
            num_instances=live.num_instances.copy(),
            num_io_ops=live.num_io_ops.copy(),
            devices=live.devices.copy(),
            metrics=dict(live.metrics),
        )

    def _table(
        self, lock: AbstractContextManager[Any], taken_at: float, providers: Callable[[], ProviderTable]
    ) -> HostTable:
        """Return the present hosts with the columns of this state. ``providers``: returns the table of providers."""
        layout, services = self._laid_out(), self._services()
        return HostTable(
            hosts=layout.hosts,
            nodes=layout.nodes,
            uuids=layout.uuids,
            resource_classes=tuple(self.providers.classes),
            used=self.providers.view_used if layout.identity else layout.used,
            trait_rows=layout.trait_rows,
            trait_bits=layout.trait_bits,
            disabled=services.disabled,
            forced_down=services.forced_down,
            last_seen=services.last_seen(taken_at),
            num_instances=layout.num_instances,
            num_io_ops=layout.num_io_ops,
            failed_builds=layout.failed_builds,
            profiles=layout.profiles,
            profile=layout.profile,
            device_states=self._devices.states,
            devices=layout.devices,
            aggregates=self._aggregate_rows(),
            instance_rows=InstanceRows(self.instances, layout.row_of),
            host_ips=layout.host_ips,
            disabled_reasons=services.reasons,
            guests=PresentGuests(lock, self.guest_tally, layout.row_of),
            metrics=self._metrics.columns,
            taken_at=taken_at,
            memo=self.memo,
            providers=None if layout.plain else providers(),
            provider_rows=layout.rows,
            **layout.inventory,
        )

    def hosts_apart(self, lock: AbstractContextManager[Any], taken_at: float) -> HostTable:
        """Return the present hosts as a copy that later changes of the mirror do not affect."""
        hosts = self.hosts(lock, taken_at)
        row_of, instances = self._laid_out().row_of, dict(self.instances)
        assumed = [
            (self.node_ids.node(each.host, each.node), each.guest)
            for each in self.assumed.values()
            if each.guest is not None
        ]
        return replace(
            hosts,
            instance_rows=InstanceRows(instances, row_of),
            device_states=self._devices.states.copy(),
            guests=ChangedGuests(CopiedGuests(instances, assumed, row_of)),
            memo=Memo(),
        )

    def directory(self) -> HostDirectory:
        """Return the index of zones, hosts and nodes."""
        if self._directory is None:
            self._directory = HostDirectory.of(self._hosts, self.zones())
        return self._directory

    def zones(self) -> Mapping[str, str]:
        """Return host → availability zone, for hosts that an aggregate puts into a zone."""
        if self._zones is None:
            in_order = [self._aggregates[number] for number in sorted(self._aggregates)]
            self._zones = {
                host: each.availability_zone
                for each in in_order
                if each.availability_zone is not None
                for host in each.hosts
            }
        return self._zones

    def guest_tally(self) -> GuestTally:
        """Return the counts of instances by kind, assumed claims included. Use the counts only with the lock held."""
        if self._guests is None:
            self._guests = tally = GuestTally()
            for placed in self.instances.values():
                tally.add(placed.node_id, placed.kind, 1)
            for assumption in self.assumed.values():
                if assumption.guest is not None:
                    tally.add(self.node_ids.node(assumption.host, assumption.node), assumption.guest, 1)
        return self._guests

    # --- pending claims -----------------------------------------------------------------------------------------------

    def assume(self, assumption: Assumption) -> None:
        self.assumed[assumption.claim_id] = assumption
        self._count_assumed(assumption, 1)

    def forget(self, claim_id: str) -> None:
        """Remove an assumed claim. Not an error if the claim is absent."""
        assumption = self.assumed.pop(claim_id, None)
        if assumption is not None:
            self._count_assumed(assumption, -1)

    def _count_assumed(self, assumption: Assumption, sign: int) -> None:
        for provider, amounts in assumption.allocations.items():
            self.providers.assume(provider, amounts, sign)
            self._show_use(provider)
        node_id = self.node_ids.node(assumption.host, assumption.node)
        self._count_at(node_id, sign, sign, assumption.guest)
        if assumption.devices:
            if sign > 0:
                self._devices.assume(assumption.node_uuid, assumption.claim_id, assumption.devices)
            else:
                self._devices.forget(assumption.node_uuid, assumption.claim_id)
            self._show_devices(node_id, assumption.node_uuid)
        if assumption.group_uuid is not None:
            self.groups.assume(assumption.group_uuid, assumption.host, sign)

    # --- applying changes ---------------------------------------------------------------------------------------------

    def apply(self, change: Change) -> None:
        key, value = change.key, change.value
        match change.kind:  # in the order of their frequency
            case "usage":
                self._apply_usage(key, value)
            case "instance":
                self._apply_instance(key, value)
            case "heartbeat":
                self._apply_heartbeat(key, value)
            case "metrics":
                self._apply_metrics(key, value)
            case "group":
                self._apply_group(key, value)
            case "process":
                self._apply_process(key, value)
            case "agents":
                self._apply_agents(key, value)
            case "provider":
                self._apply_provider(key, value)
            case "node":
                self._apply_node(key, value)
            case "service":
                self._apply_service(key, value)
            case "devices":
                self._apply_devices(key, value)
            case "aggregate":
                self._apply_aggregate(key, value)
            case "isolation":
                self._apply_isolation(key, value)
            case _:
                assert_never(change.kind)

    def _apply_provider(self, uuid: str, value: LoggedProvider | None) -> None:
        known = self.providers.find_id(uuid)
        # The provider was deleted, and maybe created again in the same commit.
        if known is not None and (value is None or value.id != known):
            for claim_id in [key for key, assumed in self.assumed.items() if uuid in assumed.allocations]:
                self.forget(claim_id)
            self.providers.remove(uuid)
        if value is not None:
            self.providers.set(uuid, value)

    def _apply_usage(self, uuid: str, value: LoggedUse) -> None:
        self.providers.set_usage(uuid, value.used)
        self._show_use(uuid)

    def _apply_node(self, uuid: str, value: LoggedNode | None) -> None:
        self._hosts.set_node(uuid, value)
        self._directory = None
        if value is None:
            self._metrics.remove(uuid)
        self._forget_layout()

    def _apply_metrics(self, uuid: str, value: LoggedMetrics) -> None:
        row = self._row_of_node(uuid)
        self._metrics.set(uuid, value, row)
        if row is not None:
            self._changes.mark(row)

    def _apply_devices(self, uuid: str, value: LoggedDevices | None) -> None:
        self._devices.set(uuid, None if value is None else devices_from_logged(value))
        node_id = self._hosts.ids_of_nodes.get(uuid)
        if node_id is not None:
            self._show_devices(node_id, uuid)

    def _apply_service(self, host: str, value: LoggedService | None) -> None:
        self._service_facts = self._directory = None
        if self._hosts.set_service(host, value):
            self._forget_layout()

    def _apply_process(self, uuid: str, value: LoggedProcess | None) -> None:
        self._hosts.set_process(uuid, value)
        self._service_facts = None

    def _apply_agents(self, process: str, value: LoggedAgents) -> None:
        self._hosts.set_agents(process, value.hosts)
        self._service_facts = None

    def _apply_heartbeat(self, _key: str, value: LoggedHeartbeat) -> None:
        self._hosts.hear(value.hosts, value.at)
        self._service_facts = None

    def _apply_aggregate(self, key: str, value: LoggedAggregate | None) -> None:
        if value is None:
            self._aggregates.pop(int(key), None)
        else:
            hosts, metadata = tuple(value.hosts), dict(value.metadata)
            self._aggregates[int(key)] = Aggregate(int(key), value.uuid, value.name, hosts, metadata)
            if not self.of_the_past:
                _complain_of_broken_rule(self._aggregates[int(key)])
        self._aggregate_index = self._directory = self._zones = None
        self.memo = Memo()

    def _apply_isolation(self, _key: str, value: LoggedIsolation) -> None:
        self._isolation_version = value
        self._aggregate_index = None

    def _apply_group(self, uuid: str, value: LoggedGroup | None) -> None:
        self.groups.set(uuid, value)

    def _apply_instance(self, uuid: str, value: LoggedInstance | None) -> None:
        placed = self.instances.pop(uuid, None)
        if placed is not None:
            self._count_at(placed.node_id, -1, -int(placed.io_heavy), placed.kind)
        if value is not None:
            placed = self.instances.place(uuid, value)
            self._count_at(placed.node_id, 1, int(placed.io_heavy), placed.kind)

    # --- columns ------------------------------------------------------------------------------------------------------

    def _count_at(self, node_id: int, instances: int, io_ops: int, kind: GuestKind | None) -> None:
        self._hosts.count(node_id, instances, io_ops)
        layout = self._layout
        if layout is not None and (row := layout.row_of.get(node_id)) is not None:
            layout.num_instances[row] += instances
            layout.num_io_ops[row] += io_ops
            self._changes.mark(row)
        if self._guests is not None and kind is not None:
            self._guests.add(node_id, kind, instances)

    def _show_use(self, provider: str) -> None:
        """Update the row of a host after a change of its provider's usage."""
        layout = self._layout
        if layout is None or layout.version != self.providers.version:
            return  # the next layout is built from the present usage
        place = self.providers.row_of.get(provider)
        if place is None or (row := layout.row_of_provider(place)) is None:
            return
        if not layout.identity:
            layout.used[row] = self.providers.view_used[place]
        self._changes.mark(row)

    def _show_devices(self, node_id: int, uuid: str) -> None:
        layout = self._layout
        if layout is None or (row := layout.row_of.get(node_id)) is None:
            return
        if self._devices.has_too_many_states(len(layout.rows)):
            self._forget_layout()
        else:
            layout.devices[row] = self._devices.number(uuid)
            self._changes.mark(row)

    def _row_of_node(self, uuid: str) -> int | None:
        node_id = self._hosts.ids_of_nodes.get(uuid)
        return None if node_id is None or self._layout is None else self._layout.row_of.get(node_id)

    def _forget_layout(self) -> None:
        self._layout = None
        self._service_facts = None
        self._aggregate_index = None
        self.memo = Memo()

    def _laid_out(self) -> Layout:
        if self._layout is None or self._layout.version != self.providers.version:
            self._forget_layout()
            self._layout = Layout.of(self.providers.table(), self._hosts, self._devices)
            self._changes = RowChanges(len(self._layout.rows))
            self._metrics.lay_out(self._row_of_node, len(self._layout.rows))
        return self._layout

    def _services(self) -> ServiceFacts:
        """Return the status of the services. It is the same object as long as no status changes."""
        if self._service_facts is None:
            found = ServiceFacts.of(self._laid_out(), self._hosts)
            known = self._live
            self._service_facts = known[2] if known is not None and found.is_same_as(known[2]) else found
        return self._service_facts

    def _aggregate_rows(self) -> AggregateIndex:
        if self._aggregate_index is None:
            self._aggregate_index = AggregateIndex.of(
                tuple(self._aggregates.values()), self._laid_out().hosts, isolation_version=self._isolation_version
            )
        return self._aggregate_index
