# SPDX-License-Identifier: Apache-2.0
"""Assignment of PCI requests to the device pools of a host.

Several requests can take devices from one pool, and one request can take devices from several pools. All combinations
are considered: the assignment fails only if no combination satisfies all requests.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain

from kilonova.model.numa import HostCell
from kilonova.model.pci import PF, VDPA, NumaPolicy, PciPool, PciRequest
from kilonova.placement.assignment import assign
from kilonova.records import dataclass
from kilonova.scheduler.devices.port_requests import NETWORK_TAG, NO_NETWORK, REMOTE_TAG

_ONLY_ON_DEMAND = (PF, VDPA)


@dataclass(frozen=True, slots=True)
class Served:
    """Devices for all requests of a server. ``devices``: (pool number, number of devices) pairs.

    ``ports``: (port id, pool number) pairs of the devices for ports.
    """

    devices: tuple[tuple[int, int], ...] = ()
    ports: tuple[tuple[str, int], ...] = ()


def serve(
    pools: Sequence[PciPool],
    requests: Sequence[PciRequest],
    cells: Sequence[HostCell] = (),
    near: Collection[int] | None = None,
) -> Served | None:
    """Return devices that satisfy all ``requests``, or None if that is impossible.

    ``near``: the ids of the host cells that the server will use; None for a server without NUMA topology, which takes
    devices from any cell. ``cells``: all NUMA cells of the host; they are read for the socket of each cell.

    Source: spec SCHEDULER §3 #22; Nova admin guide, "PCI passthrough", affinity policies.
    """
    wanted = [_suitable(pools, request, cells, near) for request in requests]
    free = {pool.number: pool.free for pool in pools}
    if any(sum(free[number] for number in suits) < each.count for suits, each in zip(wanted, requests, strict=True)):
        return None
    given = assign(wanted, [request.count for request in requests], free)
    if given is None:
        return None
    ports = tuple((each.port_id, numbers[0]) for each, numbers in zip(requests, given, strict=True) if each.port_id)
    return Served(tuple(sorted(Counter(chain(*given)).items())), ports)


def matches(pool: PciPool, request: PciRequest) -> bool:
    """Tell whether the devices of a pool match ``request``, regardless of their NUMA node.

    Physical functions and vDPA devices match only if the request names their type; remote-managed devices match only a
    request for them. A device without the tag ``physical_network`` is for overlay networks.
    """
    facts = {NETWORK_TAG: NO_NETWORK, **{name: value.lower() for name, value in pool.facts().items()}}
    facts[REMOTE_TAG] = "true" if facts.get(REMOTE_TAG) in {"true", "1", "yes"} else "false"
    if facts[REMOTE_TAG] == "true" and not any(dict(spec).get(REMOTE_TAG) == "true" for spec in request.specs):
        return False
    if pool.dev_type in _ONLY_ON_DEMAND and not any(
        dict(spec).get("dev_type") == pool.dev_type for spec in request.specs
    ):
        return False
    return any(all(facts.get(name) == value.lower() for name, value in spec) for spec in request.specs)


def _suitable(
    pools: Sequence[PciPool], request: PciRequest, cells: Sequence[HostCell], near: Collection[int] | None
) -> list[int]:
    """Return the numbers of the pools that ``request`` can use under its NUMA affinity policy, the nearest first."""
    fitting = [pool for pool in pools if pool.free > 0 and matches(pool, request)]
    if near is None:
        return [pool.number for pool in fitting]
    distances = {pool.number: _distance(pool, cells, near) for pool in fitting}
    farthest = {
        NumaPolicy.REQUIRED: ("near",),
        NumaPolicy.SOCKET: ("near", "socket"),
        NumaPolicy.LEGACY: ("near", "unknown"),
        NumaPolicy.PREFERRED: ("near", "unknown", "socket", "far"),
    }[request.numa_policy]
    return [
        pool.number
        for pool in sorted(fitting, key=lambda pool: _ORDER.index(distances[pool.number]))
        if distances[pool.number] in farthest
    ]


_ORDER = ("near", "unknown", "socket", "far")


def _distance(pool: PciPool, cells: Sequence[HostCell], near: Collection[int]) -> str:
    if pool.numa_node is None:
        return "unknown"
    if pool.numa_node in near:
        return "near"
    sockets = {cell.id: cell.socket for cell in cells}
    if None in sockets.values():
        return "far"
    own = sockets.get(pool.numa_node)
    return "socket" if own is not None and own in {sockets.get(cell) for cell in near} else "far"
