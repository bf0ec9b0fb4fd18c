# SPDX-License-Identifier: Apache-2.0
"""Server groups in scheduling decisions: the rule that each policy needs, and the group of a server that is moved."""

from collections.abc import Mapping

from kilonova.errors import UnsupportedPolicy
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.rule import rule_name

_RULES: Mapping[str, str] = {
    "affinity": "ServerGroupAffinityFilter",
    "anti-affinity": "ServerGroupAntiAffinityFilter",
    "soft-affinity": "ServerGroupSoftAffinityWeigher",
    "soft-anti-affinity": "ServerGroupSoftAntiAffinityWeigher",
}


def require_support(engine: Engine, policy: str) -> None:
    """Raise UnsupportedPolicy if a group policy needs a filter or weigher that is not enabled.

    The error names this filter or weigher. Source: spec SCHEDULER §9.
    """
    needed = _RULES.get(policy)
    if needed is not None and needed not in {rule_name(rule) for rule in (*engine.filters, *engine.weighers)}:
        raise UnsupportedPolicy(f"ServerGroup policy is not supported: {needed} not configured", policy=policy)


def group_for(spec: RequestSpec, group: GroupView | None, hosts: HostTable) -> GroupView | None:
    """Return the server group as the rules must see it: without the moved server on its current host.

    Otherwise the only member of an affinity group could not move to another host.
    """
    if group is None or spec.move is None or len(spec.instance_uuids) != 1:
        return group
    row = hosts.instance_rows.get(spec.instance_uuids[0])
    if row is None or not group.hosts.get(hosts.hosts[row]):
        return group
    return group.with_members(hosts.hosts[row], -1)
