# SPDX-License-Identifier: Apache-2.0
"""What ports of a server require of the devices of its host: PCI devices, and NUMA cells near their networks."""

from collections.abc import Collection, Mapping, Sequence
from typing import Self

from kilonova.errors import InvalidRequest
from kilonova.model.network_info import VnicType
from kilonova.model.numa import HostCell
from kilonova.model.pci import PF, VDPA, NumaPolicy, PciRequest
from kilonova.model.port_profiles import PCI_VNIC_TYPES
from kilonova.model.request_spec import RequestedNetwork, RequestSpec
from kilonova.records import dataclass

#: Tags of PCI devices that requests of ports name. ``NO_NETWORK``: value for devices of overlay networks.
NETWORK_TAG, REMOTE_TAG, TRUSTED_TAG = "physical_network", "remote_managed", "trusted"
NO_NETWORK = "none"
#: VNIC types of ports → type of the PCI device that they need. Other ports take virtual functions and other devices.
_DEVICE_TYPES: Mapping[str, str] = {VnicType.DIRECT_PHYSICAL: PF, VnicType.VDPA: VDPA}


def port_pci_requests(networks: Sequence[RequestedNetwork], policy: NumaPolicy | None) -> tuple[PciRequest, ...]:
    """Return a request for each port that needs a PCI device. ``policy``: NUMA affinity of flavor and image."""
    return tuple(_request(each, policy) for each in networks if each.port_id and each.vnic_type in PCI_VNIC_TYPES)


def _request(network: RequestedNetwork, policy: NumaPolicy | None) -> PciRequest:
    spec = {
        NETWORK_TAG: network.physical_network or NO_NETWORK,
        REMOTE_TAG: "true" if network.vnic_type == VnicType.REMOTE_MANAGED else "false",
    }
    if (dev_type := _DEVICE_TYPES.get(network.vnic_type)) is not None:
        spec["dev_type"] = dev_type
    if network.trusted is not None:
        spec[TRUSTED_TAG] = "true" if network.trusted else "false"
    if network.numa_policy is not None:
        if network.numa_policy not in list(NumaPolicy):
            raise InvalidRequest(f"Port {network.port_id} has an unknown NUMA affinity policy, {network.numa_policy}.")
        policy = NumaPolicy(network.numa_policy)
    return PciRequest("", 1, (tuple(sorted(spec.items())),), policy or NumaPolicy.LEGACY, network.port_id)


@dataclass(frozen=True, slots=True)
class NetworkAffinity:
    """Networks whose cards must be near the NUMA cells of a server, as far as the host knows where the cards are."""

    physnets: frozenset[str] = frozenset()
    tunneled: bool = False

    @classmethod
    def of(cls, spec: RequestSpec) -> Self:
        """Return the affinity that the networks of a request demand."""
        physnets = frozenset(each.physical_network for each in spec.networks if each.physical_network is not None)
        return cls(physnets, any(each.tunneled for each in spec.networks))

    def matters_on(self, cells: Sequence[HostCell]) -> bool:
        """Tell whether a host reports a card of one of the networks."""
        return any(cell.physnets & self.physnets or (cell.tunneled and self.tunneled) for cell in cells)

    def allows(self, cells: Sequence[HostCell], chosen: Collection[int]) -> bool:
        """Tell whether the chosen cells, given by their ids, include one near each card that the host reports."""
        here = [cell for cell in cells if cell.id in chosen]
        elsewhere = [cell for cell in cells if cell.id not in chosen]
        missing = self.physnets.difference(*(cell.physnets for cell in here))
        if any(cell.physnets & missing for cell in elsewhere):
            return False
        return not self.tunneled or any(cell.tunneled for cell in here) or not any(cell.tunneled for cell in elsewhere)


#: A server whose networks may be anywhere.
ANYWHERE = NetworkAffinity()
