# SPDX-License-Identifier: Apache-2.0
"""Server groups in decisions: which rule makes a policy effective, and how a server that moves sees its own group."""

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
    """Refuse a group whose filter or weigher is not configured.

    Raises: UnsupportedPolicy, naming the rule.
    Source: spec SCHEDULER §9.
    """
    needed = _RULES.get(policy)
    if needed is not None and needed not in {rule_name(rule) for rule in (*engine.filters, *engine.weighers)}:
        raise UnsupportedPolicy(f"ServerGroup policy is not supported: {needed} not configured", policy=policy)


def group_for(spec: RequestSpec, group: GroupView | None, hosts: HostTable) -> GroupView | None:
    """Return a group as the rules shall see it: for a server that moves, the other members decide.

    So the only member of an affinity group may go anywhere.
    """
    if group is None or spec.move is None or len(spec.instance_uuids) != 1:
        return group
    row = hosts.instance_rows.get(spec.instance_uuids[0])
    if row is None or not group.hosts.get(hosts.hosts[row]):
        return group
    return group.with_members(hosts.hosts[row], -1)
