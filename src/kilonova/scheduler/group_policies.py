# SPDX-License-Identifier: Apache-2.0
"""Which rule makes the policy of a server group effective. Without it, nobody would look for fitting hosts."""

from collections.abc import Mapping

from kilonova.errors import UnsupportedPolicy
from kilonova.scheduler.engine import Engine
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
