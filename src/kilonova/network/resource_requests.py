# SPDX-License-Identifier: Apache-2.0
"""Resources of Placement's providers that a port requests (``resource_request``), and that its host gives to it."""

from collections.abc import Iterable, Mapping
from typing import Any

from kilonova.model.port_profiles import ALLOCATION
from kilonova.model.request_spec import ResourceGroup
from kilonova.network.client import Resource


def groups_of(port: Resource) -> tuple[ResourceGroup, ...]:
    """Return the request groups of a port, in either format of ``resource_request``."""
    asked: Mapping[str, Any] = port.get("resource_request") or {}
    given: Iterable[Mapping[str, Any]] = asked.get("request_groups", [{**asked, "id": port["id"]}])
    return tuple(
        ResourceGroup(
            suffix=each["id"],
            resources=dict(each.get("resources") or {}),
            required=frozenset(each.get("required") or ()),
            port_id=port["id"],
        )
        for each in given
        if each.get("resources") or each.get("required")
    )


def resources_of(port: Resource) -> dict[str, dict[str, int]]:
    """Return what a bound port uses on its host: resource provider → class → amount."""
    allocation = (port.get("binding:profile") or {}).get(ALLOCATION)
    if not allocation:
        return {}
    found: dict[str, dict[str, int]] = {}
    for group in groups_of(port):
        provider = allocation if isinstance(allocation, str) else allocation.get(group.suffix)
        if provider:
            amounts = found.setdefault(provider, {})
            for name, amount in group.resources.items():
                amounts[name] = amounts.get(name, 0) + amount
    return found
