# SPDX-License-Identifier: Apache-2.0
"""Security groups and their rules in replies of the compute API."""

from collections.abc import Mapping, Sequence
from typing import Any

from kilonova.deadline import heeding
from kilonova.network import security_groups
from kilonova.network.client import NetworkClient
from kilonova.network.security_group_rules import IngressRule
from kilonova.network.security_groups import SecurityGroup


def groups_view(client: NetworkClient, groups: Sequence[SecurityGroup], *, token: str) -> list[dict[str, Any]]:
    """Return groups with their rules. Rules whose source group the user cannot see are omitted."""
    sources = security_groups.source_groups(client, groups, token=token)
    return [_view(group, sources) for group in heeding(groups)]


def rule_view(rule: IngressRule, source: SecurityGroup | None) -> dict[str, Any]:
    """Return a rule. ``source``: its source group, None for a rule with a network."""
    return {
        "id": rule.id,
        "parent_group_id": rule.group_id,
        "ip_protocol": rule.protocol,
        "from_port": rule.from_port,
        "to_port": rule.to_port,
        "group": {} if source is None else {"name": source.name, "tenant_id": source.project_id},
        "ip_range": {"cidr": rule.cidr} if source is None else {},
    }


def _view(group: SecurityGroup, sources: Mapping[str, SecurityGroup]) -> dict[str, Any]:
    return {
        "id": group.id,
        "name": group.name,
        "description": group.description,
        "tenant_id": group.project_id,
        "rules": [
            rule_view(rule, sources.get(rule.source_group_id or ""))
            for rule in group.rules
            if rule.source_group_id is None or rule.source_group_id in sources
        ],
    }
