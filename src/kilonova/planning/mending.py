# SPDX-License-Identifier: Apache-2.0
"""Mending: servers that violate a rule on their present host are moved to a host where they violate none.

Violations: isolation and every filter that judges aggregates, zones or capabilities; strict server groups; usage beyond
the capacity of the host.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from kilonova.planning.cloud import Cloud
from kilonova.planning.planned_server import PlannedServer
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn, dependence_of
from kilonova.scheduler.engine.funnel import ISOLATION_RULE
from kilonova.scheduler.explanations.explain import explain
from kilonova.scheduler.rule import rule_name

OVER_CAPACITY = "capacity"


@dataclass(frozen=True, slots=True)
class Violation:
    """A server on a host that a rule forbids for it. ``rule``: name of the rule."""

    server: PlannedServer
    rule: str
    reason: str


def violations(cloud: Cloud) -> list[Violation]:
    """Return the violations of all known servers now, at most one for each, by uuid. Raises: RuleFailed."""
    found: dict[str, Violation] = {}
    for each in (*_of_rules(cloud), *_of_groups(cloud), *_of_capacity(cloud)):
        found.setdefault(each.server.uuid, each)
    return [found[uuid] for uuid in sorted(found)]


def _of_rules(cloud: Cloud) -> Iterator[Violation]:
    """Yield servers whose host a rule forbids even without the other servers on it."""
    static = {rule_name(each) for each in cloud.engine.filters if dependence_of(each) is DependsOn.SHARED}
    by_spec: dict[int, list[PlannedServer]] = defaultdict(list)
    for server in cloud.servers.values():
        if cloud.row_of(server) is not None:
            by_spec[id(server.spec)].append(server)
    for servers in by_spec.values():
        story = explain(cloud.hosts, servers[0].spec.of_new_server(), cloud.engine)
        rules = [each for each in story.verdicts if each.rule == ISOLATION_RULE or each.rule in static]
        for server in servers:
            row = cloud.row_of(server)
            broken = next((each for each in rules if not each.passes[row]), None)
            if broken is not None:
                yield Violation(server, broken.rule, broken.reason)


def _of_groups(cloud: Cloud) -> Iterator[Violation]:
    """Yield the members of strict groups that are too many on a host, or apart from the others."""
    members: dict[str, dict[str, list[PlannedServer]]] = defaultdict(lambda: defaultdict(list))
    for server in cloud.servers.values():
        row = cloud.row_of(server)
        if server.group_uuid in cloud.groups and row is not None:
            members[str(server.group_uuid)][cloud.hosts.hosts[row]].append(server)
    for uuid in sorted(members):
        group = cloud.groups[uuid]
        for host, servers in sorted(members[uuid].items()):
            servers.sort(key=lambda server: (server.disk_gib + server.memory_gib, server.uuid))
            if group.policy == "anti-affinity":
                excess = len(servers) - group.max_server_per_host
                for server in servers[: max(excess, 0)]:
                    yield Violation(server, "anti-affinity", f"{len(servers)} members of the group are on its host")
            elif group.policy == "affinity" and group.hosts and host not in group.hosts:
                for server in servers:
                    yield Violation(server, "affinity", "the other members of the group are on another host")


def _of_capacity(cloud: Cloud) -> Iterator[Violation]:
    """Yield servers of hosts whose usage is over their capacity, so many that the rest fits."""
    hosts = cloud.hosts
    for row in np.flatnonzero((hosts.used > hosts.capacity).any(axis=1)).tolist():
        over: Mapping[str, int] = {
            name: int(hosts.used[row, column] - hosts.capacity[row, column])
            for column, name in enumerate(hosts.resource_classes)
            if hosts.used[row, column] > hosts.capacity[row, column]
        }
        left = dict(over)
        for server in sorted(cloud.servers_on(row), key=lambda each: (each.disk_gib + each.memory_gib, each.uuid)):
            held = cloud.held(server)
            given = {} if held is None else held.allocations.get(hosts.uuids[row], {})
            if not any(left[name] > 0 and given.get(name, 0) for name in left):
                continue
            left = {name: amount - given.get(name, 0) for name, amount in left.items()}
            yield Violation(server, OVER_CAPACITY, f"its host is over its capacity of {', '.join(sorted(over))}")
