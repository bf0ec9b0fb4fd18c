# SPDX-License-Identifier: Apache-2.0
"""What ports and networks of servers require of their hosts: resources of Placement's providers, for instance.

All requests are those of Kilonova's own service user, because users cannot see what ports request.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from kilonova.errors import InvalidRequest
from kilonova.model.network_info import NetworkInfo, VnicType
from kilonova.model.network_request import NetworkRequest
from kilonova.model.port_profiles import PCI_VNIC_TYPES
from kilonova.model.request_spec import RequestedNetwork
from kilonova.network.client import NetworkClient, Resource
from kilonova.network.extensions import RESOURCE_REQUEST, SEGMENT, has_extension
from kilonova.network.info import by_id, physical_network_of
from kilonova.network.resource_requests import groups_of
from kilonova.records import dataclass

#: Attributes of a port that users can see, and that tell whether the port may require something of its host.
HINTS = ("binding:vnic_type", "qos_policy_id", "qos_network_policy_id")
_FIELDS = (
    "id",
    "network_id",
    "fixed_ips",
    "binding:vnic_type",
    "binding:profile",
    "resource_request",
    "numa_affinity_policy",
)
#: Network types whose packets are sent in tunnels between hosts.
_TUNNELED = frozenset({"geneve", "gre", "vxlan"})
_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})
#: Returns the aggregates of segments: segment id → uuids. Segments without a resource provider are left out.
SegmentAggregates = Callable[[Collection[str]], Mapping[str, frozenset[str]]]


@dataclass(frozen=True, slots=True)
class Lookups:
    """What is looked up for all networks of a server.

    ``cards``: physical networks, since the server's NUMA cells must be near them. ``aggregates_of``: finds the
    aggregates of routed networks' segments; None: these do not restrict the choice of a host.
    """

    cards: bool = False
    aggregates_of: SegmentAggregates | None = None

    def __bool__(self) -> bool:
        return self.cards or self.aggregates_of is not None


NO_LOOKUPS = Lookups()


def may_demand(client: NetworkClient, port: Resource) -> bool:
    """Tell whether a port may require something of its host. ``port``: with the attributes ``HINTS``, as far as known.

    Neutron's QoS plug-in shows the policies of a port; without this plug-in, only the extension is known.
    """
    if (port.get("binding:vnic_type") or VnicType.NORMAL) != VnicType.NORMAL:
        return True
    if "qos_policy_id" in port:
        return bool(port["qos_policy_id"] or port.get("qos_network_policy_id"))
    return has_extension(client, RESOURCE_REQUEST)


def demands_of_request(
    client: NetworkClient, request: NetworkRequest, lookups: Lookups = NO_LOOKUPS
) -> tuple[RequestedNetwork, ...]:
    """Return what the requested networks of a new server require. Ports without such demands cost no request.

    Raises: InvalidRequest for a port that needs an accelerator.
    """
    asking = [item for item in request.networks if lookups or item.demands]
    ports = by_id(client, "ports", {item.port_id for item in asking if item.port_id is not None}, _FIELDS)
    return _demands(client, [(item.network_id, ports.get(item.port_id or "")) for item in asking], lookups)


def demands_of_server(
    client: NetworkClient, info: NetworkInfo, lookups: Lookups = NO_LOOKUPS
) -> tuple[RequestedNetwork, ...]:
    """Return what the interfaces of an existing server require of another host. Deleted ports are left out."""
    special = any(vif.vnic_type != VnicType.NORMAL for vif in info)
    if not (lookups or special or has_extension(client, RESOURCE_REQUEST)):
        return ()
    ports = by_id(client, "ports", {vif.port_id for vif in info}, _FIELDS)
    found = [(vif.network.id, ports[vif.port_id]) for vif in info if vif.port_id in ports]
    return tuple(each for each in _demands(client, found, lookups) if lookups or _is_special(each))


def _is_special(demand: RequestedNetwork) -> bool:
    return bool(demand.groups) or demand.vnic_type != VnicType.NORMAL


def _demands(
    client: NetworkClient, found: Sequence[tuple[str, Resource | None]], lookups: Lookups
) -> tuple[RequestedNetwork, ...]:
    """Return the demands of interfaces: each the id of a network, and its port if it exists already."""
    with_card = {network for network, port in found if lookups.cards or _vnic_type(port) in PCI_VNIC_TYPES}
    networks = by_id(client, "networks", with_card)
    segments = _segments(client, found, lookups)
    return tuple(
        _demand(network_id, port, networks.get(network_id), each)
        for (network_id, port), each in zip(found, segments, strict=True)
    )


def _demand(
    network_id: str, port: Resource | None, network: Resource | None, segments: tuple[frozenset[str], ...]
) -> RequestedNetwork:
    physical = None if network is None else physical_network_of(network)
    demand = RequestedNetwork(
        network_id=network_id,
        segments=segments,
        physical_network=physical,
        tunneled=network is not None and physical is None and network.get("provider:network_type") in _TUNNELED,
    )
    if port is None:
        return demand
    vnic_type = _vnic_type(port)
    if vnic_type in {VnicType.ACCELERATOR_DIRECT, VnicType.ACCELERATOR_DIRECT_PHYSICAL}:
        raise InvalidRequest(
            f"Port {port['id']} needs an accelerator ({vnic_type}), but there is no accelerator service."
        )
    groups = groups_of(port)
    together = frozenset((port.get("resource_request") or {}).get("same_subtree") or ())
    return replace(
        demand,
        vnic_type=vnic_type,
        port_id=port["id"],
        groups=groups,
        same_subtree=together & {group.suffix for group in groups},
        trusted=_trusted((port.get("binding:profile") or {}).get("trusted")),
        numa_policy=port.get("numa_affinity_policy"),
    )


def _vnic_type(port: Resource | None) -> str:
    return str((port or {}).get("binding:vnic_type") or VnicType.NORMAL)


def _trusted(value: object) -> bool | None:
    return None if value is None else str(value).strip().lower() in _TRUE


def _segments(
    client: NetworkClient, found: Sequence[tuple[str, Resource | None]], lookups: Lookups
) -> list[tuple[frozenset[str], ...]]:
    """Return, for each interface, the aggregates of each segment that its address may be in."""
    if lookups.aggregates_of is None or not found or not has_extension(client, SEGMENT):
        return [() for _ in found]
    fields = ["id", "network_id", "segment_id"]
    subnets = client.list("subnets", network_id=sorted({network for network, _ in found}), fields=fields)
    segment_of = {each["id"]: each["segment_id"] for each in subnets if each.get("segment_id")}
    possible: list[list[str]] = []
    for network_id, port in found:
        fixed = [] if port is None else port["fixed_ips"]
        near = (
            [fixed[0]["subnet_id"]] if fixed else [each["id"] for each in subnets if each["network_id"] == network_id]
        )
        possible.append(sorted({segment_of[subnet] for subnet in near if subnet in segment_of}))
    named = set().union(*possible)
    aggregates = lookups.aggregates_of(named) if named else {}
    return [tuple(aggregates.get(segment, frozenset()) for segment in segments) for segments in possible]
