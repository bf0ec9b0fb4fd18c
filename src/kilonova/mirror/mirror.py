# SPDX-License-Identifier: Apache-2.0
"""The mirror: load once, then follow the change log; assume what is being claimed until it is confirmed or forgotten.

::

    commit ──on_commit──▶ apply in seq order ──▶ confirmed state ─┐
    claim under way ──assume / forget────────────▶ assumed use ───┴▶ snapshot() → HostTable, providers() → ProviderTable
"""

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson
import sqlalchemy as sa
from numpy.typing import NDArray

from kilonova.db import mirror_source
from kilonova.db import tables as t
from kilonova.db.compute_nodes import capabilities_from_json
from kilonova.db.database import Change, Commit, Database, decode_commit
from kilonova.db.host_devices import devices_from_json
from kilonova.mirror.device_columns import DeviceColumns
from kilonova.mirror.provider_columns import ProviderColumns
from kilonova.model.aggregate import Aggregate
from kilonova.model.host import Capabilities
from kilonova.model.host_devices import DeviceShare
from kilonova.model.server_group import GroupView
from kilonova.placement.provider_table import ProviderTable
from kilonova.placement.provider_tree import SHARING_TRAIT
from kilonova.scheduler.guests import Counts, GuestCounts, GuestKind, GuestTally, SomeGuests, guest_kind
from kilonova.scheduler.host_table import AggregateIndex, HostTable, Memo
from kilonova.scheduler.isolation.rules import rule_of

LOG = logging.getLogger(__name__)

#: Before any commit, so that no log row can come next.
_NOWHERE = -1

HostKey = tuple[str, str]  # service host, hypervisor hostname


@dataclass(frozen=True, slots=True)
class Assumption:
    """What one claim under way will use.

    ``allocations``: provider uuid → resource class → amount.
    ``guest``: the kind of the instance to come, for rules that ask what is on a host.
    ``devices``: of the cells and pools of the hypervisor ``node_uuid``.
    """

    claim_id: str
    allocations: Mapping[str, Mapping[str, int]]
    host: str
    node: str
    group_uuid: str | None = None
    guest: GuestKind | None = None
    node_uuid: str = ""
    devices: DeviceShare | None = None


@dataclass(frozen=True, slots=True)
class _Node:
    host: str
    node: str
    host_ip: str
    capabilities: Capabilities
    failed_builds: int


@dataclass(frozen=True, slots=True)
class _Service:
    disabled: bool
    reason: str
    forced_down: bool
    last_seen: float


@dataclass(frozen=True, slots=True)
class _Group:
    policy: str
    max_server_per_host: int
    hosts: Mapping[str, int]


@dataclass(slots=True)
class _Layout:
    """The rows of the host table and every column that only changes with the set of hosts. Shapes: (H,)."""

    rows: NDArray[np.int64]
    identity: bool
    #: Whether no host can get anything from a provider other than its own.
    plain: bool
    row_of: dict[HostKey, int]
    hosts: tuple[str, ...]
    nodes: tuple[str, ...]
    uuids: tuple[str, ...]
    host_ips: tuple[str, ...]
    profiles: tuple[Capabilities, ...]
    profile: NDArray[np.int32]
    failed_builds: NDArray[np.int64]
    num_instances: NDArray[np.int64]
    num_io_ops: NDArray[np.int64]
    devices: NDArray[np.int32]
    version: int
    inventory: dict[str, Any]
    trait_rows: Mapping[str, int]
    trait_bits: NDArray[np.bool_]
    metrics: dict[str, NDArray[np.float64]]


@dataclass(slots=True)
class _ServiceColumns:
    disabled: NDArray[np.bool_]
    forced_down: NDArray[np.bool_]
    last_seen: NDArray[np.float64]
    reasons: dict[int, str]


#: Service host, hypervisor hostname, is it busy with I/O, of which kind.
_Placed = tuple[str, str, bool, GuestKind]


class _InstanceRows(Mapping[str, int]):
    """Instance uuid → row of its host, looked up when asked."""

    def __init__(self, instances: Mapping[str, _Placed], row_of: Mapping[HostKey, int]) -> None:
        self._instances = instances
        self._row_of = row_of

    def __getitem__(self, uuid: str) -> int:
        return self._row_of[self._instances[uuid][:2]]

    def __iter__(self) -> Iterator[str]:
        return (uuid for uuid, placed in list(self._instances.items()) if placed[:2] in self._row_of)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True, slots=True)
class _Guests:
    """Counts of the instances on the rows of one layout, as they are when asked for, assumed ones included."""

    mirror: "Mirror"
    row_of: Mapping[HostKey, int]

    def count(self, row: int, kind: GuestKind) -> None:
        """Do nothing: a server that was placed is assumed, so it counts already."""

    def take(self, rows: NDArray[np.int64]) -> GuestCounts:
        return SomeGuests(self, rows)

    def of_other_flavors(self, flavor_id: str) -> Counts:
        with self.mirror.lock:
            return self.mirror.guest_tally().columns(self.row_of).of_other_flavors(flavor_id)

    def with_image_property(self, name: str, value: str) -> Counts:
        with self.mirror.lock:
            return self.mirror.guest_tally().columns(self.row_of).with_image_property(name, value)


@contextmanager
def _collector_resting() -> Iterator[None]:
    """Keep the garbage collector from walking over a million new objects again and again, now and later."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def _complain_of_broken_rule(aggregate: Aggregate) -> None:
    rule = rule_of(aggregate.metadata)
    for _, _, why in rule.broken if rule is not None else ():
        LOG.error("Nobody may use the hosts of aggregate %s (id %d): %s", aggregate.name, aggregate.id, why)


@dataclass(slots=True)
class Mirror:
    """Everything the scheduler needs, in memory. Every public method may be called from any thread.

    ``lock`` serialises decisions: hold it from :meth:`snapshot` to :meth:`assume`.
    """

    database: Database | None
    clock: Callable[[], float] = time.time
    lock: threading.RLock = field(default_factory=threading.RLock)
    seq: int = 0
    _providers: ProviderColumns = field(default_factory=ProviderColumns)
    _devices: DeviceColumns = field(default_factory=DeviceColumns)
    _nodes: dict[str, _Node] = field(default_factory=dict)
    _services: dict[str, _Service] = field(default_factory=dict)
    _aggregates: dict[int, Aggregate] = field(default_factory=dict)
    _isolation_version: int = 0
    _groups: dict[str, _Group] = field(default_factory=dict)
    _instances: dict[str, _Placed] = field(default_factory=dict)
    _kinds: dict[GuestKind, GuestKind] = field(default_factory=dict)
    #: Only there once a rule asked what is on the hosts; in step from then on.
    _guests: GuestTally | None = None
    _metrics: dict[str, Mapping[str, float]] = field(default_factory=dict)
    _counts: dict[HostKey, list[int]] = field(default_factory=dict)
    _assumed: dict[str, Assumption] = field(default_factory=dict)
    _assumed_in_group: dict[str, dict[str, int]] = field(default_factory=dict)
    _layout: _Layout | None = None
    _service_columns: _ServiceColumns | None = None
    _aggregate_index: AggregateIndex | None = None
    _memo: Memo = field(default_factory=Memo)
    _profiles: dict[bytes, Capabilities] = field(default_factory=dict)

    @classmethod
    def follow(cls, database: Database, *, clock: Callable[[], float] = time.time) -> "Mirror":
        """Load the database's present state and stay in step with this process's commits."""
        mirror = cls(database, clock)
        mirror.reload()
        database.on_commit(mirror.on_commit)
        return mirror

    @classmethod
    def of(cls, changes: Iterable[Change], seq: int, *, now: float) -> "Mirror":
        """Return a mirror of a past state, at which time stands still; :meth:`replay` brings it forward."""
        mirror = cls(None, lambda: now)
        mirror._fill(changes, seq)
        return mirror

    # --- reading ------------------------------------------------------------------------------------------------------

    def snapshot(self) -> HostTable:
        """Return the hosts as they are now, assumed claims included."""
        with self.lock:
            self.catch_up()
            layout = self._laid_out()
            services = self._service_facts(layout)
            if self._aggregate_index is None:
                self._aggregate_index = AggregateIndex.of(
                    tuple(self._aggregates.values()), layout.hosts, isolation_version=self._isolation_version
                )
            view = self._providers.view_used
            used = view[: len(layout.rows)].copy(order="K") if layout.identity else np.asfortranarray(view[layout.rows])
            return HostTable(
                hosts=layout.hosts,
                nodes=layout.nodes,
                uuids=layout.uuids,
                resource_classes=tuple(self._providers.classes),
                used=used,
                trait_rows=layout.trait_rows,
                trait_bits=layout.trait_bits,
                disabled=services.disabled,
                forced_down=services.forced_down,
                last_seen=services.last_seen,
                num_instances=layout.num_instances.copy(),
                num_io_ops=layout.num_io_ops.copy(),
                failed_builds=layout.failed_builds,
                profiles=layout.profiles,
                profile=layout.profile,
                device_states=self._devices.states,
                devices=layout.devices.copy(),
                aggregates=self._aggregate_index,
                instance_rows=_InstanceRows(self._instances, layout.row_of),
                host_ips=layout.host_ips,
                disabled_reasons=services.reasons,
                guests=_Guests(self, layout.row_of),
                metrics=layout.metrics.copy(),
                taken_at=self.clock(),
                memo=self._memo,
                providers=None if layout.plain else self._providers.table(),
                provider_rows=layout.rows,
                **layout.inventory,
            )

    def snapshot_apart(self) -> HostTable:
        """Return a snapshot that nothing later reaches, for work outside the lock that may take its time."""
        with self.lock:
            hosts = self.snapshot()
            row_of = dict(self._laid_out().row_of)
            return replace(hosts, instance_rows=_InstanceRows(dict(self._instances), row_of), memo=Memo())

    def providers(self) -> ProviderTable:
        """Return every resource provider as it is now, assumed claims included."""
        with self.lock:
            self.catch_up()
            return self._providers.table()

    def group(self, uuid: str) -> GroupView | None:
        """Return a server group with the members on each host, assumed ones included; None when unknown."""
        with self.lock:
            group = self._groups.get(uuid)
            if group is None:
                return None
            hosts = dict(group.hosts)
            for host, members in self._assumed_in_group.get(uuid, {}).items():
                hosts[host] = hosts.get(host, 0) + members
            return GroupView(uuid, group.policy, group.max_server_per_host, hosts)

    def provider_id(self, uuid: str) -> int:
        """Return the database id of a provider."""
        return self._providers.ids[self._providers.row_of[uuid]]

    def guest_tally(self) -> GuestTally:
        """Return the counts of instances by kind, assumed ones included. Hold the lock while using them."""
        if self._guests is None:
            self._guests = tally = GuestTally()
            for host, node, _, kind in self._instances.values():
                tally.add((host, node), kind, 1)
            for assumption in self._assumed.values():
                if assumption.guest is not None:
                    tally.add((assumption.host, assumption.node), assumption.guest, 1)
        return self._guests

    # --- claims under way ---------------------------------------------------------------------------------------------

    def assumed(self) -> tuple[Assumption, ...]:
        """Return the claims under way."""
        with self.lock:
            return tuple(self._assumed.values())

    def assume(self, assumption: Assumption) -> None:
        """Count a claim as used from now on, until its commit confirms it or :meth:`forget`."""
        with self.lock:
            self._assumed[assumption.claim_id] = assumption
            self._count_assumed(assumption, 1)

    def forget(self, claim_id: str) -> None:
        """Take an assumption back; one already confirmed or forgotten is success."""
        with self.lock:
            assumption = self._assumed.pop(claim_id, None)
            if assumption is not None:
                self._count_assumed(assumption, -1)

    def _count_assumed(self, assumption: Assumption, sign: int) -> None:
        for provider, amounts in assumption.allocations.items():
            self._providers.assume(provider, amounts, sign)
        self._count_on_host((assumption.host, assumption.node), sign, sign, assumption.guest)
        if assumption.devices:
            if sign > 0:
                self._devices.assume(assumption.node_uuid, assumption.claim_id, assumption.devices)
            else:
                self._devices.forget(assumption.node_uuid, assumption.claim_id)
            self._show_devices((assumption.host, assumption.node), assumption.node_uuid)
        if assumption.group_uuid is not None:
            hosts = self._assumed_in_group.setdefault(assumption.group_uuid, {})
            hosts[assumption.host] = hosts.get(assumption.host, 0) + sign
            if not hosts[assumption.host]:
                del hosts[assumption.host]
            if not hosts:
                del self._assumed_in_group[assumption.group_uuid]

    # --- following the log --------------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Read everything in one snapshot of the database."""
        with self.lock:
            self.seq = _NOWHERE  # until everything is here: whatever breaks on the way, the next one loads again
            self._providers = ProviderColumns()
            self._devices.clear()
            for store in (self._nodes, self._services, self._aggregates, self._groups, self._instances, self._counts):
                store.clear()
            self._metrics.clear()
            self._kinds.clear()
            self._guests = None
            assert self.database is not None
            with _collector_resting(), mirror_source.load(self.database) as loaded:
                self._fill(loaded.changes, loaded.seq)
            for assumption in self._assumed.values():
                for provider, amounts in assumption.allocations.items():
                    self._providers.assume(provider, amounts, 1)
                self._count_on_host((assumption.host, assumption.node), 1, 1, assumption.guest)
            self._forget_layout()

    def _fill(self, changes: Iterable[Change], seq: int) -> None:
        with self._providers.filling():
            for change in changes:
                self._apply(change)
        self.seq = seq

    def replay(self, commits: Iterable[Commit]) -> None:
        """Take over commits that follow each other and the present state."""
        with self.lock:
            for commit in commits:
                self._replay(commit)

    def on_commit(self, commit: Commit) -> None:
        """Take over one commit of this process; missing ones of others are fetched first."""
        with self.lock:
            if commit.seq <= self.seq:
                # It came in with a reload, which knows nothing of claims.
                for claim_id in commit.claims:
                    self.forget(claim_id)
                return
            try:
                if commit.seq == self.seq + 1:
                    self._replay(commit)
                else:
                    self._fetch_missing()
            except Exception:
                LOG.exception("Commit %d could not be followed; everything is loaded again", commit.seq)
                for claim_id in commit.claims:
                    self.forget(claim_id)
                self.reload()

    def catch_up(self) -> None:
        """Be as new as the database. Costs nothing on SQLite, where this process is the only writer."""
        if self.database is None or self.database.is_sqlite:
            return
        with self.lock:
            newest = self.database.newest_seq()
            if newest > self.seq:
                self._fetch_missing()
            elif newest < self.seq:
                LOG.warning("The database is older than it was: everything is loaded again")
                self.reload()

    def _fetch_missing(self) -> None:
        assert self.database is not None
        with self.database.read() as connection:
            statement = sa.select(t.change_log.c.seq, t.change_log.c.body).where(t.change_log.c.seq > self.seq)
            rows = connection.execute(statement.order_by(t.change_log.c.seq)).all()
        if not rows or rows[0].seq != self.seq + 1:
            self.reload()
            return
        self.replay(decode_commit(row.seq, row.body) for row in rows)

    def _replay(self, commit: Commit) -> None:
        for claim_id in commit.claims:
            self.forget(claim_id)
        for change in commit.changes:
            self._apply(change)
        self.seq = commit.seq

    def _apply(self, change: Change) -> None:
        getattr(self, f"_apply_{change.kind}")(change.key, change.value)

    def _apply_provider(self, uuid: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            for claim_id in [key for key, assumed in self._assumed.items() if uuid in assumed.allocations]:
                self.forget(claim_id)
            self._providers.remove(uuid)
        else:
            self._providers.set(uuid, value)

    def _apply_usage(self, uuid: str, value: Mapping[str, Any]) -> None:
        self._providers.set_usage(uuid, value["generation"], value["used"])

    def _apply_node(self, uuid: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            self._nodes.pop(uuid, None)
            self._metrics.pop(uuid, None)
        else:
            capabilities = self._interned_profile(value["capabilities"])
            self._nodes[uuid] = _Node(
                value["host"], value["node"], value["host_ip"], capabilities, value["failed_builds"]
            )
        self._forget_layout()

    def _apply_metrics(self, uuid: str, value: Mapping[str, float]) -> None:
        before = self._metrics.get(uuid, {})
        self._metrics[uuid] = value
        layout = self._layout
        if layout is None or (row := self._row_of(layout.row_of, uuid)) is None:
            return
        for name in before.keys() | value.keys():
            column = layout.metrics.get(name)
            # Snapshots share the column, so it is replaced.
            changed = np.full(len(layout.rows), np.nan) if column is None else column.copy()
            changed[row] = value.get(name, np.nan)
            layout.metrics[name] = changed

    def _apply_devices(self, uuid: str, value: Mapping[str, Any] | None) -> None:
        self._devices.set(uuid, None if value is None else devices_from_json(value))
        node = self._nodes.get(uuid)
        if node is not None:
            self._show_devices((node.host, node.node), uuid)

    def _apply_service(self, host: str, value: Mapping[str, Any] | None) -> None:
        known = host in self._services
        if value is None:
            self._services.pop(host, None)
        else:
            seen = value["last_seen"] if value["last_seen"] is not None else value["created"]
            self._services[host] = _Service(value["disabled"], value["reason"] or "", value["forced_down"], seen or 0.0)
        self._service_columns = None
        if known != (host in self._services):
            self._forget_layout()

    def _apply_heartbeat(self, _key: str, value: Mapping[str, Any]) -> None:
        seen = float(value["at"])
        for host in value["hosts"]:
            service = self._services.get(host)
            if service is not None:
                self._services[host] = _Service(service.disabled, service.reason, service.forced_down, seen)
        self._service_columns = None

    def _apply_aggregate(self, key: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            self._aggregates.pop(int(key), None)
        else:
            hosts, metadata = tuple(value["hosts"]), dict(value["metadata"])
            self._aggregates[int(key)] = Aggregate(int(key), value["uuid"], value["name"], hosts, metadata)
            _complain_of_broken_rule(self._aggregates[int(key)])
        self._aggregate_index = None
        self._memo = Memo()

    def _apply_isolation(self, _key: str, value: int) -> None:
        self._isolation_version = value
        self._aggregate_index = None

    def _apply_group(self, uuid: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            self._groups.pop(uuid, None)
        else:
            self._groups[uuid] = _Group(value["policy"], value["max"], dict(value["hosts"]))

    def _apply_instance(self, uuid: str, value: Mapping[str, Any] | None) -> None:
        before = self._instances.pop(uuid, None)
        if before is not None:
            self._count_on_host(before[:2], -1, -int(before[2]), before[3])
        if value is not None:
            host, node, io_heavy = value["host"], value["node"], bool(value["io"])
            kind = guest_kind(value["flavor"], value["image"])
            kind = self._kinds.setdefault(kind, kind)
            self._instances[uuid] = (host, node, io_heavy, kind)
            self._count_on_host((host, node), 1, int(io_heavy), kind)

    # --- columns ------------------------------------------------------------------------------------------------------

    def _count_on_host(self, key: HostKey, instances: int, io_ops: int, kind: GuestKind | None) -> None:
        counts = self._counts.setdefault(key, [0, 0])
        counts[0] += instances
        counts[1] += io_ops
        layout = self._layout
        if layout is not None and (row := layout.row_of.get(key)) is not None:
            layout.num_instances[row] += instances
            layout.num_io_ops[row] += io_ops
        if self._guests is not None and kind is not None:
            self._guests.add(key, kind, instances)

    def _show_devices(self, key: HostKey, uuid: str) -> None:
        layout = self._layout
        if layout is None or (row := layout.row_of.get(key)) is None:
            return
        if self._devices.has_too_many_states(len(layout.rows)):
            self._forget_layout()
        else:
            layout.devices[row] = self._devices.number(uuid)

    def _interned_profile(self, value: Mapping[str, Any]) -> Capabilities:
        key = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        known = self._profiles.get(key)
        if known is None:
            known = self._profiles[key] = capabilities_from_json(value)
        return known

    def _forget_layout(self) -> None:
        self._layout = None
        self._service_columns = None
        self._aggregate_index = None
        self._memo = Memo()

    def _laid_out(self) -> _Layout:
        if self._layout is None or self._layout.version != self._providers.version:
            self._forget_layout()
            self._layout = self._lay_out()
        return self._layout

    def _lay_out(self) -> _Layout:
        table = self._providers.table()
        found = sorted(
            (table.row_of[uuid], uuid, node)
            for uuid, node in self._nodes.items()
            if uuid in table.row_of and node.host in self._services
        )
        rows = np.array([row for row, _, _ in found], dtype=np.int64)
        identity = len(rows) == len(table) and bool((rows == np.arange(len(rows))).all())
        keys = [(node.host, node.node) for _, _, node in found]
        counts = np.array([self._counts.get(key, (0, 0)) for key in keys], dtype=np.int64).reshape(len(keys), 2)
        profiles: dict[int, int] = {}
        distinct: list[Capabilities] = []
        profile = np.zeros(len(found), dtype=np.int32)
        for index, (_, _, node) in enumerate(found):
            number = profiles.setdefault(id(node.capabilities), len(distinct))
            if number == len(distinct):
                distinct.append(node.capabilities)
            profile[index] = number
        row_of = {key: row for row, key in enumerate(keys)}
        uuids = tuple(uuid for _, uuid, _ in found)
        columns = ("total", "reserved", "allocation_ratio", "min_unit", "max_unit", "step_size", "capacity")
        return _Layout(
            rows=rows,
            identity=identity,
            plain=identity and bool((table.parent < 0).all()) and SHARING_TRAIT not in table.trait_rows,
            row_of=row_of,
            hosts=tuple(host for host, _ in keys),
            nodes=tuple(node for _, node in keys),
            uuids=uuids,
            host_ips=tuple(node.host_ip for _, _, node in found),
            profiles=tuple(distinct),
            profile=profile,
            failed_builds=np.array([node.failed_builds for _, _, node in found], dtype=np.int64),
            num_instances=counts[:, 0].copy(),
            num_io_ops=counts[:, 1].copy(),
            devices=self._devices.numbers(uuids),
            version=self._providers.version,
            inventory={name: np.asfortranarray(getattr(table, name)[rows]) for name in columns},
            trait_rows=table.trait_rows,
            trait_bits=table.trait_bits[:, rows],
            metrics=self._metric_columns(row_of),
        )

    def _row_of(self, row_of: Mapping[HostKey, int], uuid: str) -> int | None:
        node = self._nodes.get(uuid)
        return None if node is None else row_of.get((node.host, node.node))

    def _metric_columns(self, row_of: Mapping[HostKey, int]) -> dict[str, NDArray[np.float64]]:
        columns: dict[str, NDArray[np.float64]] = {}
        for uuid, metrics in self._metrics.items():
            if (row := self._row_of(row_of, uuid)) is not None:
                for name, value in metrics.items():
                    if name not in columns:
                        columns[name] = np.full(len(row_of), np.nan)
                    columns[name][row] = value
        return columns

    def _service_facts(self, layout: _Layout) -> _ServiceColumns:
        facts = self._service_columns
        if facts is None:
            services = [self._services[host] for host in layout.hosts]
            facts = self._service_columns = _ServiceColumns(
                disabled=np.array([service.disabled for service in services], dtype=np.bool_),
                forced_down=np.array([service.forced_down for service in services], dtype=np.bool_),
                last_seen=np.array([service.last_seen for service in services], dtype=np.float64),
                reasons={row: service.reason for row, service in enumerate(services) if service.disabled},
            )
        return facts
