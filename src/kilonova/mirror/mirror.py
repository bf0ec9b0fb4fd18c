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

from kilonova.db import change_log, mirror_source
from kilonova.db.database import Database
from kilonova.db.host_devices import devices_from_json
from kilonova.db.transaction import Change, Commit
from kilonova.mirror.device_columns import DeviceColumns
from kilonova.mirror.groups import Groups
from kilonova.mirror.host_columns import HostColumns
from kilonova.mirror.instances import InstanceRows, Instances, PresentGuests
from kilonova.mirror.layout import Layout, ServiceFacts
from kilonova.mirror.metric_columns import MetricColumns
from kilonova.mirror.places import Places
from kilonova.mirror.provider_columns import ProviderColumns
from kilonova.model.aggregate import Aggregate
from kilonova.model.host_devices import DeviceShare
from kilonova.model.server_group import GroupView
from kilonova.placement.provider_table import ProviderTable
from kilonova.scheduler.guests import GuestKind, GuestTally
from kilonova.scheduler.host_table import AggregateIndex, HostTable, Memo
from kilonova.scheduler.isolation.rules import rule_of

LOG = logging.getLogger(__name__)

#: Before any commit, so that no log row can come next.
_NOWHERE = -1


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
    _places: Places = field(default_factory=Places)
    _hosts: HostColumns = field(init=False)
    _instances: Instances = field(init=False)
    _aggregates: dict[int, Aggregate] = field(default_factory=dict)
    _isolation_version: int = 0
    _groups: Groups = field(default_factory=Groups)
    #: Only there once a rule asked what is on the hosts; in step from then on.
    _guests: GuestTally | None = None
    _metrics: MetricColumns = field(default_factory=MetricColumns)
    _assumed: dict[str, Assumption] = field(default_factory=dict)
    _layout: Layout | None = None
    _service_facts: ServiceFacts | None = None
    _aggregate_index: AggregateIndex | None = None
    _memo: Memo = field(default_factory=Memo)

    def __post_init__(self) -> None:
        self._hosts = HostColumns(self._places)
        self._instances = Instances(self._places)

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
            services = self._service_facts
            if services is None:
                services = self._service_facts = ServiceFacts.of(layout, self._hosts)
            if self._aggregate_index is None:
                self._aggregate_index = AggregateIndex.of(
                    tuple(self._aggregates.values()), layout.hosts, isolation_version=self._isolation_version
                )
            view = self._providers.view_used
            used = view.copy(order="K") if layout.identity else np.asfortranarray(view[layout.rows])
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
                instance_rows=InstanceRows(self._instances, layout.row_of),
                host_ips=layout.host_ips,
                disabled_reasons=services.reasons,
                guests=PresentGuests(self.lock, self.guest_tally, layout.row_of),
                metrics=self._metrics.columns.copy(),
                taken_at=self.clock(),
                memo=self._memo,
                providers=None if layout.plain else self._providers.table(),
                provider_rows=layout.rows,
                **layout.inventory,
            )

    def snapshot_apart(self) -> HostTable:
        """Return a snapshot for work outside the lock that may take its time, and that may place servers on it.

        Nothing later reaches it, nor does it reach the mirror; only guests are counted when they are asked for.
        """
        with self.lock:
            hosts = self.snapshot()
            instances = InstanceRows(dict(self._instances), self._laid_out().row_of)
            states = self._devices.states.copy()
            return replace(hosts, instance_rows=instances, device_states=states, memo=Memo())

    def providers(self) -> ProviderTable:
        """Return every resource provider as it is now, assumed claims included."""
        with self.lock:
            self.catch_up()
            return self._providers.table()

    def group(self, uuid: str) -> GroupView | None:
        """Return a server group with the members on each host, assumed ones included; None when unknown."""
        with self.lock:
            return self._groups.find(uuid)

    def provider_id(self, uuid: str) -> int:
        """Return the database id of a provider."""
        return self._providers.ids[self._providers.row_of[uuid]]

    def guest_tally(self) -> GuestTally:
        """Return the counts of instances by kind, assumed ones included. Hold the lock while using them."""
        if self._guests is None:
            self._guests = tally = GuestTally()
            for placed in self._instances.values():
                tally.add(placed.place, placed.kind, 1)
            for assumption in self._assumed.values():
                if assumption.guest is not None:
                    tally.add(self._places.place(assumption.host, assumption.node), assumption.guest, 1)
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
        place = self._places.place(assumption.host, assumption.node)
        self._count_at(place, sign, sign, assumption.guest)
        if assumption.devices:
            if sign > 0:
                self._devices.assume(assumption.node_uuid, assumption.claim_id, assumption.devices)
            else:
                self._devices.forget(assumption.node_uuid, assumption.claim_id)
            self._show_devices(place, assumption.node_uuid)
        if assumption.group_uuid is not None:
            self._groups.assume(assumption.group_uuid, assumption.host, sign)

    # --- following the log --------------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Read everything in one snapshot of the database."""
        with self.lock:
            self.seq = _NOWHERE  # until everything is here: whatever breaks on the way, the next one loads again
            self._providers = ProviderColumns()
            for store in (self._devices, self._hosts, self._metrics, self._aggregates, self._groups, self._instances):
                store.clear()
            self._guests = None
            assert self.database is not None
            with _collector_resting(), mirror_source.load(self.database) as loaded:
                self._fill(loaded.changes, loaded.seq)
            for assumption in self._assumed.values():
                for provider, amounts in assumption.allocations.items():
                    self._providers.assume(provider, amounts, 1)
                place = self._places.place(assumption.host, assumption.node)
                self._count_at(place, 1, 1, assumption.guest)
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
            try:
                if commit.seq == self.seq + 1:
                    self._replay(commit)
                elif commit.seq > self.seq:
                    self._fetch_missing()
            except Exception:
                LOG.exception("Commit %d could not be followed; everything is loaded again", commit.seq)
                self.reload()
            finally:
                # It may have come in with a reload, which knows nothing of claims.
                for claim_id in commit.claims:
                    self.forget(claim_id)

    def catch_up(self) -> None:
        """Be as new as the database. Costs nothing on SQLite, where this process is the only writer."""
        if self.database is None or (self.database.is_sqlite and self.seq != _NOWHERE):
            return
        with self.lock:
            if self.seq == _NOWHERE:  # the last load broke
                self.reload()
                return
            newest = self.database.newest_seq()
            if newest > self.seq:
                self._fetch_missing()
            elif newest < self.seq:
                LOG.warning("The database is older than it was: everything is loaded again")
                self.reload()

    def _fetch_missing(self) -> None:
        assert self.database is not None
        with self.database.read(patient=True) as connection:
            commits = change_log.between(connection, self.seq)
        if commits:
            self.replay(commits)
        else:
            self.reload()

    def _replay(self, commit: Commit) -> None:
        for claim_id in commit.claims:
            self.forget(claim_id)
        for change in commit.changes:
            self._apply(change)
        self.seq = commit.seq

    def _apply(self, change: Change) -> None:
        getattr(self, f"_apply_{change.kind}")(change.key, change.value)

    def _apply_provider(self, uuid: str, value: Mapping[str, Any] | None) -> None:
        known = self._providers.find_id(uuid)
        if known is not None and (value is None or value["id"] != known):  # gone, or gone and made anew in one commit
            for claim_id in [key for key, assumed in self._assumed.items() if uuid in assumed.allocations]:
                self.forget(claim_id)
            self._providers.remove(uuid)
        if value is not None:
            self._providers.set(uuid, value)

    def _apply_usage(self, uuid: str, value: Mapping[str, Any]) -> None:
        self._providers.set_usage(uuid, value["used"])

    def _apply_node(self, uuid: str, value: Mapping[str, Any] | None) -> None:
        self._hosts.set_node(uuid, value)
        if value is None:
            self._metrics.remove(uuid)
        self._forget_layout()

    def _apply_metrics(self, uuid: str, value: Mapping[str, float]) -> None:
        self._metrics.set(uuid, value, self._row_of_node(uuid))

    def _apply_devices(self, uuid: str, value: Mapping[str, Any] | None) -> None:
        self._devices.set(uuid, None if value is None else devices_from_json(value))
        place = self._hosts.node_places.get(uuid)
        if place is not None:
            self._show_devices(place, uuid)

    def _apply_service(self, host: str, value: Mapping[str, Any] | None) -> None:
        self._service_facts = None
        if self._hosts.set_service(host, value):
            self._forget_layout()

    def _apply_heartbeat(self, _key: str, value: Mapping[str, Any]) -> None:
        self._hosts.hear(value["hosts"], float(value["at"]))
        self._service_facts = None

    def _apply_aggregate(self, key: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            self._aggregates.pop(int(key), None)
        else:
            hosts, metadata = tuple(value["hosts"]), dict(value["metadata"])
            self._aggregates[int(key)] = Aggregate(int(key), value["uuid"], value["name"], hosts, metadata)
            if self.database is not None:  # of the past nobody needs to hear
                _complain_of_broken_rule(self._aggregates[int(key)])
        self._aggregate_index = None
        self._memo = Memo()

    def _apply_isolation(self, _key: str, value: int) -> None:
        self._isolation_version = value
        self._aggregate_index = None

    def _apply_group(self, uuid: str, value: Mapping[str, Any] | None) -> None:
        self._groups.set(uuid, value)

    def _apply_instance(self, uuid: str, value: Mapping[str, Any] | None) -> None:
        placed = self._instances.pop(uuid, None)
        if placed is not None:
            self._count_at(placed.place, -1, -int(placed.io_heavy), placed.kind)
        if value is not None:
            placed = self._instances.place(uuid, value)
            self._count_at(placed.place, 1, int(placed.io_heavy), placed.kind)

    # --- columns ------------------------------------------------------------------------------------------------------

    def _count_at(self, place: int, instances: int, io_ops: int, kind: GuestKind | None) -> None:
        self._hosts.count(place, instances, io_ops)
        layout = self._layout
        if layout is not None and (row := layout.row_of.get(place)) is not None:
            layout.num_instances[row] += instances
            layout.num_io_ops[row] += io_ops
        if self._guests is not None and kind is not None:
            self._guests.add(place, kind, instances)

    def _show_devices(self, place: int, uuid: str) -> None:
        layout = self._layout
        if layout is None or (row := layout.row_of.get(place)) is None:
            return
        if self._devices.has_too_many_states(len(layout.rows)):
            self._forget_layout()
        else:
            layout.devices[row] = self._devices.number(uuid)

    def _row_of_node(self, uuid: str) -> int | None:
        place = self._hosts.node_places.get(uuid)
        return None if place is None or self._layout is None else self._layout.row_of.get(place)

    def _forget_layout(self) -> None:
        self._layout = None
        self._service_facts = None
        self._aggregate_index = None
        self._memo = Memo()

    def _laid_out(self) -> Layout:
        if self._layout is None or self._layout.version != self._providers.version:
            self._forget_layout()
            self._layout = Layout.of(self._providers.table(), self._hosts, self._devices)
            self._metrics.lay_out(self._row_of_node, len(self._layout.rows))
        return self._layout
