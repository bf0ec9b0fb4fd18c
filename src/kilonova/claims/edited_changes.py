# SPDX-License-Identifier: Apache-2.0
"""The change log as it would be if aggregates and services were different: the same commits, with edited values.

A mirror that follows the edited changes is the cloud after the change of policy. All that Kilonova derives from an
aggregate or a service is edited with it: the Placement aggregates and the traits of the hosts' root providers.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from kilonova.db.change_log.changes import (
    Change,
    LoggedAggregate,
    LoggedNode,
    LoggedProvider,
    LoggedService,
    LoggedUse,
)
from kilonova.model.aggregate import Aggregate
from kilonova.planning.policy_change import PolicyChange
from kilonova.scheduler.request_filters import DISABLED_TRAIT


class EditedChanges:
    """Edits the changes of one cloud in the order in which a mirror applies them.

    It remembers the providers of the hosts that the change of policy names, because the aggregates and nodes on which
    their values depend may follow them.
    """

    def __init__(self, change: PolicyChange) -> None:
        self._change = change
        named = {host for each in change.aggregates.values() for host in each.add_hosts | each.remove_hosts}
        self._hosts = named | change.disabled.keys()
        #: Aggregate id → uuid, for changed aggregates that exist.
        self._aggregates: dict[int, str] = {}
        #: Provider uuid → service host, for the hypervisors of the named hosts.
        self._nodes: dict[str, str] = {}
        self._providers: dict[str, LoggedProvider] = {}
        #: Ids of the changed aggregates that have existed, and the named hosts that had a compute service.
        self.met_aggregates: set[int] = set()
        self.met_hosts: set[str] = set()

    @property
    def is_empty(self) -> bool:
        """Whether no change is edited."""
        return not self._change.aggregates and not self._change.disabled

    def forget(self) -> None:
        """Begin again, at another state of the cloud."""
        self._aggregates.clear()
        self._nodes.clear()
        self._providers.clear()

    def edited(self, changes: Iterable[Change]) -> Iterator[Change]:
        """Yield the changes as they would be."""
        if self.is_empty:
            yield from changes
            return
        for change in changes:
            match change.kind:
                case "aggregate":
                    yield from self._of_aggregate(change)
                case "node" if self._hosts:
                    yield from self._of_node(change)
                case "provider" if self._hosts:
                    self._keep_provider(change)
                    yield self._of_provider(change)
                case "usage" if change.key in self._providers:
                    self._keep_usage(change.key, change.value)
                    yield change
                case "service" if change.key in self._change.disabled and change.value is not None:
                    self.met_hosts.add(change.key)
                    service: LoggedService = change.value
                    yield replace(change, value=replace(service, disabled=self._change.disabled[change.key]))
                case _:
                    yield change

    def _of_aggregate(self, change: Change) -> Iterator[Change]:
        number = int(change.key)
        edit = self._change.aggregates.get(number)
        if edit is None:
            yield change
            return
        known = self._aggregates.pop(number, None)
        value: LoggedAggregate | None = change.value
        if value is None:
            yield change
        else:
            self.met_aggregates.add(number)
            self._aggregates[number] = value.uuid
            after = edit.of(Aggregate(number, value.uuid, value.name, tuple(value.hosts), dict(value.metadata)))
            yield replace(change, value=replace(value, hosts=after.hosts, metadata=after.metadata))
        if known != self._aggregates.get(number):
            touched = edit.add_hosts | edit.remove_hosts
            yield from self._again([uuid for uuid, host in self._nodes.items() if host in touched])

    def _of_node(self, change: Change) -> Iterator[Change]:
        yield change
        node: LoggedNode | None = change.value
        if node is None or node.host not in self._hosts:
            self._nodes.pop(change.key, None)
        elif self._nodes.get(change.key) != node.host:
            self._nodes[change.key] = node.host
            yield from self._again([change.key])

    def _again(self, providers: Iterable[str]) -> Iterator[Change]:
        """Yield the known ones of these providers, edited by what is known now."""
        for uuid in providers:
            if uuid in self._providers:
                yield self._of_provider(Change("provider", uuid, self._providers[uuid]))

    def _keep_provider(self, change: Change) -> None:
        """Remember a root provider; the node that makes it one of a named host may follow."""
        value: LoggedProvider | None = change.value
        if value is None or value.parent is not None:
            self._providers.pop(change.key, None)
        else:
            self._providers[change.key] = value

    def _keep_usage(self, uuid: str, use: LoggedUse) -> None:
        provider = self._providers[uuid]
        inventories: dict[str, Any] = {
            name: (*figures[:-1], use.used.get(name, figures[-1])) for name, figures in provider.inventories.items()
        }
        self._providers[uuid] = replace(provider, generation=use.generation, inventories=inventories)

    def _of_provider(self, change: Change) -> Change:
        host = self._nodes.get(change.key)
        value: LoggedProvider | None = change.value
        if value is None or host is None:
            return change
        members, traits = list(value.aggregates), list(value.traits)
        for number, uuid in self._aggregates.items():
            edit = self._change.aggregates[number]
            if host in edit.remove_hosts and uuid in members:
                members.remove(uuid)
            if host in edit.add_hosts and uuid not in members:
                members.append(uuid)
        if (disabled := self._change.disabled.get(host)) is not None:
            traits = [name for name in traits if name != DISABLED_TRAIT] + [DISABLED_TRAIT] * disabled
        return replace(change, value=replace(value, aggregates=members, traits=traits))
