# SPDX-License-Identifier: Apache-2.0
"""Player of a scenario with the scheduling engine alone: no API, no database, no hypervisor.

::

    hosts ──▶ HostTable ──▶ decide ──▶ add its usage ──▶ spawn ──ok──▶ next server
                              ▲                            │ spawn failed
                              └──── without that host ◀────┘
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol

import numpy as np

from kilonova.model.aggregate import ZONE_KEY, Aggregate
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.flavor import Flavor
from kilonova.model.host import NODE_TRAITS
from kilonova.model.host_devices import DeviceShare
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.records import dataclass
from kilonova.scenario.model import (
    PROJECTS,
    Scenario,
    ScenarioFlavor,
    ScenarioImage,
    ScenarioServer,
    SimulatedHost,
    with_project_ids,
)
from kilonova.scenario.outcome import SPAWN, Landing
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.devices.choice import RANKED_KEPT, first_that_gives, needs_of
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.engine.provider_trees import Allocations
from kilonova.scheduler.guests import GuestKind, TableGuests, guest_of
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.request_filters import DISABLED_TRAIT
from kilonova.scheduler.resources import with_resources


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Settings of the scenario player that are not among the scheduler's options.

    Defaults: those of a control process.
    """

    ratios: AllocationRatios = field(default_factory=AllocationRatios)
    max_attempts: int = 3
    default_schedule_zone: str | None = None
    aliases: Mapping[str, Alias] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Played:
    """The result for one server: decisions, hosts that failed to spawn its guest, and its final host, if any."""

    name: str
    decisions: tuple[Decision, ...]
    failed_on: tuple[str, ...]
    landing: Landing


class Decider(Protocol):
    """The scheduling engine, or a test double."""

    def decide(self, hosts: HostTable, spec: RequestSpec, *, limit: int) -> Decision: ...
    def allocations(self, hosts: HostTable, spec: RequestSpec, row: int) -> Allocations: ...


def described_hosts(scenario: Scenario, ratios: AllocationRatios) -> HostTable:
    """Return the hosts of a scenario without servers, as their agents would report them."""
    aggregates = tuple(
        Aggregate(
            number,
            aggregate.name,
            aggregate.name,
            aggregate.hosts,
            {**({ZONE_KEY: aggregate.zone} if aggregate.zone else {}), **aggregate.metadata},
        )
        for number, aggregate in enumerate(scenario.aggregates, start=1)
    )
    return build_host_table([_record(host, ratios) for host in scenario.hosts], aggregates)


class _World:
    """The simulated hosts with their current usage."""

    def __init__(self, scenario: Scenario, around: Surroundings) -> None:
        table = described_hosts(scenario, around.ratios)
        self._guests = TableGuests.of([()] * len(table))
        self.table: HostTable = replace(table, guests=self._guests)
        self.groups = {
            group.name: GroupView(group.name, group.policy, group.max_server_per_host or 1) for group in scenario.groups
        }
        self._aliases = around.aliases
        self._hosts = scenario.hosts
        self._failures_left = {host.name: host.failing_spawns for host in scenario.hosts}
        self._placed: dict[str, _Place] = {}

    def place(self, name: str, row: int, spec: RequestSpec, group: str | None, engine: Decider) -> None:
        """Add a server's usage to its host."""
        amounts = engine.allocations(self.table, spec, row)[self.table.uuids[row]]
        needs = needs_of(spec, self._aliases)
        share = needs.on(self.table, row) if needs else None
        self._placed[name] = _Place(row, amounts, group, guest_of(spec), share)
        self._count(self._placed[name], 1)

    def remove(self, name: str) -> None:
        """Remove a server's usage from its host."""
        self._count(self._placed.pop(name), -1)

    def _count(self, place: "_Place", sign: int) -> None:
        table, host = self.table, self.table.hosts[place.row]
        for name, amount in place.amounts.items():
            column = table.column(name)
            assert column is not None
            table.used[place.row, column] += sign * amount
        table.num_instances[place.row] += sign
        self._guests.tally.add(place.row, place.guest, sign)
        if place.share:
            devices = table.devices_of(place.row)
            after = devices.taking(place.share) if sign > 0 else devices.without(place.share)
            table.devices[place.row] = table.device_states.number(after)
        if place.group is not None:
            self.groups[place.group] = self.groups[place.group].with_members(host, sign)

    def giving(self, decision: Decision, spec: RequestSpec) -> Decision:
        """Return ``decision`` without the ranked hosts that precede the first host with devices for ``spec``."""
        best, _ = first_that_gives(decision, self.table, needs_of(spec, self._aliases))
        ranked = () if best is None else decision.ranked[decision.ranked.index(best) :]
        return replace(decision, ranked=ranked)

    def spawn(self, name: str, spec: RequestSpec) -> bool:
        """Return whether the server's host starts the guest; if not, count a failed build of that host."""
        row = self._placed[name].row
        host = self._hosts[row]
        if host.why_not(spec.image.properties if spec.image else {}) is None:
            if not self._failures_left[host.name]:
                self.table.failed_builds[row] = 0
                return True
            self._failures_left[host.name] -= self._failures_left[host.name] > 0
        self.table.failed_builds[row] += 1
        return False


@dataclass(frozen=True, slots=True)
class _Place:
    """A server's host, and the resources that the server uses there."""

    row: int
    amounts: Mapping[str, int]
    group: str | None
    guest: GuestKind
    share: DeviceShare | None


def play(scenario: Scenario, engine: Decider, surroundings: Surroundings | None = None) -> tuple[Played, ...]:
    """Play the requests of a scenario in their order and return the result of each server.

    As in a running cloud, either all servers of a request get hosts or none does; a host that failed to spawn a guest
    is excluded from the server's next attempts; and a server with a forced host or node gets only one attempt.
    """
    around = surroundings or Surroundings()
    scenario = with_project_ids(scenario, {project: project for project in PROJECTS})
    world = _World(scenario, around)
    played: list[Played] = []
    for asked in scenario.servers:
        played += _play_request(world, asked, described_request(scenario, asked, around), engine, around)
    return tuple(played)


def _play_request(
    world: _World, asked: ScenarioServer, spec: RequestSpec, engine: Decider, around: Surroundings
) -> list[Played]:
    together: list[Decision] = []
    for name in asked.names:
        decision = _decide(world, asked, spec, engine)
        together.append(decision)
        if not decision.ranked:
            for earlier in asked.names[: len(together) - 1]:
                world.remove(earlier)
            world.table.num_io_ops[:] = 0
            landing = Landing(None, decision.steps[-1].rule if decision.steps else None)
            return [Played(each, (decision,) if each == name else (), (), landing) for each in asked.names]
        world.place(name, decision.ranked[0].row, spec, asked.group, engine)
        world.table.num_io_ops[decision.ranked[0].row] += 1
    world.table.num_io_ops[:] = 0
    return [
        _build(world, asked, name, spec, decision, engine, around)
        for name, decision in zip(asked.names, together, strict=True)
    ]


def _build(
    world: _World,
    asked: ScenarioServer,
    name: str,
    spec: RequestSpec,
    first: Decision,
    engine: Decider,
    around: Surroundings,
) -> Played:
    decisions, tried = [first], list[tuple[str, str]]()
    while True:
        best = decisions[-1].ranked[0]
        if world.spawn(name, spec):
            return Played(name, tuple(decisions), _hosts(tried), Landing(best.host))
        tried.append((best.host, best.node))
        world.remove(name)
        if spec.force_host or spec.force_node or len(tried) >= around.max_attempts:
            return Played(name, tuple(decisions), _hosts(tried), Landing(None, SPAWN))
        decisions.append(_decide(world, asked, replace(spec, tried=tuple(tried)), engine))
        if not decisions[-1].ranked:
            return Played(name, tuple(decisions), _hosts(tried), Landing(None, decisions[-1].steps[-1].rule))
        world.place(name, decisions[-1].ranked[0].row, spec, asked.group, engine)


def _hosts(tried: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(host for host, _ in tried)


def _decide(world: _World, asked: ScenarioServer, spec: RequestSpec, engine: Decider) -> Decision:
    group = world.groups[asked.group] if asked.group else None
    return world.giving(engine.decide(world.table, replace(spec, group=group), limit=RANKED_KEPT), spec)


def _record(host: SimulatedHost, ratios: AllocationRatios) -> HostRecord:
    return HostRecord(
        host=host.name,
        node=host.hypervisor_hostname,
        inventories=host.reported_inventories(ratios),
        traits=frozenset({*NODE_TRAITS, *host.reported_traits, *((DISABLED_TRAIT,) if host.disabled else ())}),
        capabilities=host.capabilities,
        metrics=host.metrics,
        devices=host.devices,
        disabled=bool(host.disabled),
        disabled_reason=host.disabled,
    )


def described_flavor(flavor: ScenarioFlavor) -> Flavor:
    """Return the flavor that a scenario describes."""
    return Flavor(
        flavor_id=flavor.id or flavor.name,
        name=flavor.name,
        vcpus=flavor.vcpus,
        memory_mib=flavor.memory_mib,
        root_gib=flavor.disk_gib,
        extra_specs=flavor.extra_specs,
    )


def described_image(image: ScenarioImage) -> Image:
    """Return the image that a scenario describes."""
    return Image(image.name, image.name, disk_format=image.disk_format, properties=image.properties)


def described_request(scenario: Scenario, asked: ScenarioServer, around: Surroundings) -> RequestSpec:
    """Return the request for the servers of a scenario, without their group."""
    flavors: Mapping[str, ScenarioFlavor] = {flavor.name: flavor for flavor in scenario.flavors}
    image = next(image for image in scenario.images if image.name == asked.image)
    zone, host, node = asked.target
    return with_resources(
        RequestSpec(
            flavor=described_flavor(flavors[asked.flavor]),
            image=described_image(image),
            project_id=asked.project,
            user_id=asked.project,
            instance_uuids=asked.names,
            availability_zone=zone if asked.zone else around.default_schedule_zone,
            hints={name: (value,) for name, value in asked.hints.items()},
            force_host=host,
            force_node=node,
            remote_address=asked.remote_address,
        )
    )


def report(scenario: Scenario, played: tuple[Played, ...]) -> str:
    """Return a readable report: the host of each server, and the hosts that each rule rejected."""
    asked = {name: each for each in scenario.servers for name in each.names}
    lines = [f"{scenario.name}: {' '.join(scenario.about.split())}"]
    for server in played:
        request = asked[server.name]
        where = f", zone {request.zone}" if request.zone else ""
        where += f", group {request.group}" if request.group else ""
        landing = server.landing
        ending = landing.host or f"refused by {landing.refused_by}"
        lines += ["", f"{server.name} ({request.project}: {request.flavor}, {request.image}{where}) -> {ending}"]
        for number, decision in enumerate(server.decisions):
            lines += [f"    {line}" for line in _funnel(scenario, decision)]
            if number < len(server.failed_on):
                lines.append(f"    spawn failed on {server.failed_on[number]}")
    return "\n".join(lines) + "\n"


def _funnel(scenario: Scenario, decision: Decision) -> list[str]:
    lines = []
    for index, step in enumerate(decision.steps):
        if step.removed:
            rows = np.flatnonzero(decision.removed_by == index)
            names = ", ".join(scenario.hosts[row].name for row in rows)
            lines.append(f"{step.rule}: {step.hosts_in} -> {step.hosts_out}, {step.reason}: {names}")
    if decision.ranked:
        lines.append("best first: " + ", ".join(host.host for host in decision.ranked))
    return lines
