# SPDX-License-Identifier: Apache-2.0
"""What a server takes of the cells and devices of the host that was chosen for it."""

from collections.abc import Mapping
from dataclasses import dataclass

from kilonova.model.host_devices import DeviceShare, HostDevices
from kilonova.model.numa import InstanceNuma, Ratios
from kilonova.model.pci import PciRequest
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.decision import Decision, RankedHost
from kilonova.scheduler.devices.numa_fit import lay_out
from kilonova.scheduler.devices.pci_fit import serve
from kilonova.scheduler.devices.pci_request import Alias, pci_requests
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.numa_request import numa_request


@dataclass(frozen=True, slots=True)
class DeviceNeeds:
    """What a server asks of cells and devices. False when it asks for neither."""

    numa: InstanceNuma | None = None
    pci: tuple[PciRequest, ...] = ()

    def __bool__(self) -> bool:
        return self.numa is not None or bool(self.pci)

    def on(self, hosts: HostTable, row: int) -> DeviceShare | None:
        """Return what the server takes of a host, None when the host cannot give it."""
        cpu, memory = hosts.column("VCPU"), hosts.column("MEMORY_MB")
        ratios = Ratios(
            1.0 if cpu is None else float(hosts.allocation_ratio[row, cpu]),
            1.0 if memory is None else float(hosts.allocation_ratio[row, memory]),
        )
        return self.of(hosts.devices_of(row), ratios)

    def of(self, host: HostDevices, ratios: Ratios) -> DeviceShare | None:
        """Return what the server takes of ``host``, None when that cannot give it.

        A host that tells of no cells has none to guard: whether a server with NUMA topology may go there is the
        filter's matter, and an operator who leaves that out or forces the host wants it so.
        """
        if self.numa is not None and host.cells:
            return lay_out(host, self.numa, self.pci, ratios)
        devices = serve(host.pools, self.pci)
        return None if devices is None else DeviceShare(devices=devices, ratios=ratios)


def needs_of(spec: RequestSpec, aliases: Mapping[str, Alias]) -> DeviceNeeds:
    """Return what a request asks of cells and devices. Raises: InvalidRequest for what contradicts itself."""
    return DeviceNeeds(
        numa_request(spec.flavor, spec.image),
        pci_requests(spec.flavor, spec.image, aliases),
    )


def first_that_gives(
    decision: Decision, hosts: HostTable, needs: DeviceNeeds
) -> tuple[RankedHost, DeviceShare | None] | tuple[None, None]:
    """Return the best host that can give what ``needs`` says, and what the server takes there.

    Where the filters for cells and devices run, that is the best host. Without them, or for a forced host, hosts that
    cannot are passed over.
    """
    for ranked in decision.ranked:
        if not needs:
            return ranked, None
        share = needs.on(hosts, ranked.row)
        if share is not None:
            return ranked, share
    return None, None
