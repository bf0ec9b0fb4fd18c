# SPDX-License-Identifier: Apache-2.0
"""What ports and networks of servers require of their hosts: resources of Placement's providers, for instance.

All requests are those of Kilonova's own service user, because users cannot see what ports request.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kilonova.model.network_info import NetworkInfo, VnicType
from kilonova.model.network_request import NetworkRequest
from kilonova.model.request_spec import RequestedNetwork, ResourceGroup
from kilonova.network.client import NetworkClient, Resource
from kilonova.network.extensions import RESOURCE_REQUEST, has_extension
from kilonova.network.info import by_id

#: Attributes of a port that users can see, and that tell whether the port may require something of its host.
HINTS = ("binding:vnic_type", "qos_policy_id", "qos_network_policy_id")
_FIELDS = ("id", "network_id", "fixed_ips", "binding:vnic_type", "binding:profile", "resource_request")


def may_demand(client: NetworkClient, port: Resource) -> bool:
    """Tell whether a port may require something of its host. ``port``: with the attributes ``HINTS``, as far as known.

    Neutron's QoS plug-in shows the policies of a port; without this plug-in, only the extension is known.
    """
    if (port.get("binding:vnic_type") or VnicType.NORMAL) != VnicType.NORMAL:
        return True
    if "qos_policy_id" in port:
        return bool(port["qos_policy_id"] or port.get("qos_network_policy_id"))
    return has_extension(client, RESOURCE_REQUEST)


def demands_of_request(client: NetworkClient, request: NetworkRequest) -> tuple[RequestedNetwork, ...]:
    """Return what the requested networks of a new server require. Ports without such demands cost no request."""
    asking = {item.port_id: item.network_id for item in request.networks if item.port_id and item.demands}
    return _demands(client, asking)


def demands_of_server(client: NetworkClient, info: NetworkInfo) -> tuple[RequestedNetwork, ...]:
    """Return what the interfaces of an existing server require of another host. Deleted ports are left out."""
    if not has_extension(client, RESOURCE_REQUEST):
        return ()
    return _demands(client, {vif.port_id: vif.network.id for vif in info})


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


def _demands(client: NetworkClient, asking: Mapping[str, str]) -> tuple[RequestedNetwork, ...]:
    """Return the demands of ports. ``asking``: id of each port → id of its network."""
    ports = by_id(client, "ports", asking, _FIELDS)
    return tuple(_demand(ports[port_id]) for port_id in asking if port_id in ports)


def _demand(port: Resource) -> RequestedNetwork:
    groups = groups_of(port)
    together = frozenset((port.get("resource_request") or {}).get("same_subtree") or ())
    return RequestedNetwork(
        network_id=port["network_id"],
        vnic_type=port.get("binding:vnic_type") or VnicType.NORMAL,
        port_id=port["id"],
        groups=groups,
        same_subtree=together & {group.suffix for group in groups},
    )
