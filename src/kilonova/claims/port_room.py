# SPDX-License-Identifier: Apache-2.0
"""What a new port of a server can get on the server's present host: resources of providers, and a PCI device."""

from collections.abc import Collection, Mapping

from kilonova.errors import NoValidHost
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.devices.pci_fit import serve
from kilonova.scheduler.devices.pci_request import requests_of_ports
from kilonova.scheduler.engine.provider_trees import Allotment, allotment_from_tree
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.resources import query_of_ports


@dataclass(frozen=True, slots=True)
class Room:
    """What a host can give.

    ``node_uuid``: its hypervisor. ``pools``: port id → number of the pool of its PCI device.
    """

    node_uuid: str
    allotment: Allotment
    pools: Mapping[str, int]


def room_for_ports(hosts: HostTable, spec: RequestSpec, host: str, node: str, cells: Collection[int]) -> Room:
    """Return what the ports of a request can get on a host.

    ``cells``: ids of the host's NUMA cells that the server uses. Raises: NoValidHost, InvalidRequest.
    """
    ports = ", ".join(network.port_id for network in spec.networks)
    row = next((each for each in hosts.rows_of_host().get(host, ()) if hosts.nodes[each] == node), None)
    found = None if row is None else _allotment(hosts, spec, row)
    if row is None or found is None:
        raise NoValidHost(f"The host of the server cannot give the resources that port {ports} requests.")
    devices = hosts.devices_of(row)
    served = serve(devices.pools, requests_of_ports(spec), devices.cells, cells or None)
    if served is None:
        raise NoValidHost(f"The host of the server has no free PCI device for port {ports}.")
    return Room(hosts.uuids[row], found, dict(served.ports))


def _allotment(hosts: HostTable, spec: RequestSpec, row: int) -> Allotment | None:
    if not any(network.groups for network in spec.networks):
        return Allotment({})
    return allotment_from_tree(hosts, query_of_ports(spec), row)
