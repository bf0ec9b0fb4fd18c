# SPDX-License-Identifier: Apache-2.0
"""Preview of a change of policy on the present cloud: the servers that would violate it on their present hosts.

Each server is judged by its own request, as if it were created again on the host on which it is. Only what the change
breaks counts: a rule that rejects the host without the change as well is no violation.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping

from kilonova.planning.cloud import Cloud
from kilonova.planning.mending import Violation
from kilonova.planning.planned_server import PlannedServer
from kilonova.scheduler.depends_on import DependsOn, dependence_of
from kilonova.scheduler.engine.funnel import ISOLATION_RULE, PLACEMENT_RULE
from kilonova.scheduler.engine.request_shape import request_shape
from kilonova.scheduler.explanations.explain import Explanation, explain
from kilonova.scheduler.filters.compute import ComputeFilter
from kilonova.scheduler.host_table import BoolArray
from kilonova.scheduler.request_filters import ComputeStatusFilter
from kilonova.scheduler.rule import rule_name

#: Rules that keep new servers away from hosts whose service is disabled or down. Servers that are there stay.
_OF_NEW_SERVERS = frozenset({ComputeFilter.__name__, ComputeStatusFilter().name})


def new_violations(before: Cloud, after: Cloud, check: Callable[[], None] = lambda: None) -> list[Violation]:
    """Return the servers that violate a rule only after a change, by uuid, each with the first such rule.

    Both clouds have the same rows and servers; ``after`` is changed meanwhile, and put back. ``check``: called often;
    its exceptions end the search. Raises: RuleFailed.
    """
    static = _static_rules(after)
    by_shape: dict[Hashable, list[PlannedServer]] = defaultdict(list)
    for server in after.servers.values():
        if after.row_of(server) is not None:
            shape = request_shape(server.spec.of_new_server(), server.spec.project_id)
            by_shape[id(server.spec) if shape is None else shape].append(server)
    found: list[Violation] = []
    for servers in by_shape.values():
        check()
        spec = servers[0].spec.of_new_server()
        known = _passes(explain(before.hosts, spec, before.engine))
        story = explain(after.hosts, spec, after.engine)
        broken = [each for each in story.verdicts if each.rule not in _OF_NEW_SERVERS and not each.passes.all()]
        for server in servers:
            row = after.row_of(server)
            assert row is not None
            for verdict in broken:
                if verdict.passes[row] or (verdict.rule in known and not known[verdict.rule][row]):
                    continue
                is_certain = verdict.rule in static or verdict.rule.startswith(PLACEMENT_RULE)
                if is_certain or _still_rejects(after, server, row, verdict.rule, check):
                    found.append(Violation(server, verdict.rule, verdict.reason))
                    break
    return sorted(found, key=lambda violation: violation.server.uuid)


def _static_rules(cloud: Cloud) -> frozenset[str]:
    """Return the rules whose verdicts do not depend on the servers of a host."""
    engine = cloud.engine
    filters = (each for each in engine.filters if dependence_of(each) is DependsOn.SHARED)
    return frozenset({ISOLATION_RULE, *map(rule_name, filters), *map(rule_name, engine.request_filters)})


def _passes(story: Explanation) -> Mapping[str, BoolArray]:
    """Return rule → mask of the hosts that pass it; a rule may have several verdicts."""
    found: dict[str, BoolArray] = {}
    for verdict in story.verdicts:
        found[verdict.rule] = found[verdict.rule] & verdict.passes if verdict.rule in found else verdict.passes
    return found


def _still_rejects(cloud: Cloud, server: PlannedServer, row: int, rule: str, check: Callable[[], None]) -> bool:
    """Tell whether a rule rejects the host of a server even if the server itself is not counted there."""
    check()
    with cloud.branch():
        cloud.take_off(server)
        passes = _passes(explain(cloud.hosts, server.spec.of_new_server(), cloud.engine)).get(rule)
    return passes is not None and not passes[row]
