# SPDX-License-Identifier: Apache-2.0
"""Choice of NUMA cells, CPUs and PCI devices for a server on a host."""

from collections.abc import Mapping

from kilonova.model.host_devices import DeviceShare, HostDevices
from kilonova.model.numa import InstanceNuma, Ratios
from kilonova.model.pci import PciRequest
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.decision import Decision, RankedHost
from kilonova.scheduler.devices.numa_fit import lay_out
from kilonova.scheduler.devices.pci_fit import serve
from kilonova.scheduler.devices.pci_request import Alias, all_pci_requests
from kilonova.scheduler.devices.port_requests import ANYWHERE, NetworkAffinity
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.numa_request import numa_request

RANKED_KEPT = 10
"""Number of ranked hosts among which :func:`first_that_gives` can choose the host of a server."""


@dataclass(frozen=True, slots=True)
class DeviceNeeds:
    """The NUMA topology and the PCI devices that a server requests. ``bool()`` is False if it requests neither.

    ``networks``: networks whose cards must be near the server's NUMA cells.
    """

    numa: InstanceNuma | None = None
    pci: tuple[PciRequest, ...] = ()
    networks: NetworkAffinity = ANYWHERE

    def __bool__(self) -> bool:
        return self.numa is not None or bool(self.pci)

    def on(self, hosts: HostTable, row: int) -> DeviceShare | None:
        """Return the cells and devices that the server takes on the host at ``row``.

        None if the server does not fit on the host.
        """
        cpu, memory = hosts.column("VCPU"), hosts.column("MEMORY_MB")
        ratios = Ratios(
            1.0 if cpu is None else float(hosts.allocation_ratio[row, cpu]),
            1.0 if memory is None else float(hosts.allocation_ratio[row, memory]),
        )
        return self.of(hosts.devices_of(row), ratios)

    def of(self, host: HostDevices, ratios: Ratios) -> DeviceShare | None:
        """Return the cells and devices that the server takes on ``host``, or None if the server does not fit.

        If the host reports no NUMA cells, every NUMA topology fits. NUMATopologyFilter excludes such hosts, unless an
        operator disables the filter or forces the host.
        """
        if self.numa is not None and host.cells:
            return lay_out(host, self.numa, self.pci, ratios, self.networks)
        served = serve(host.pools, self.pci)
        return None if served is None else DeviceShare(devices=served.devices, ratios=ratios, ports=served.ports)


def needs_of(spec: RequestSpec, aliases: Mapping[str, Alias]) -> DeviceNeeds:
    """Return the NUMA topology and PCI devices of a request. Raises: InvalidRequest, for contradictory options."""
    return DeviceNeeds(
        numa_request(spec.flavor, spec.image),
        all_pci_requests(spec, aliases),
        NetworkAffinity.of(spec),
    )


def first_that_gives(
    decision: Decision, hosts: HostTable, needs: DeviceNeeds
) -> tuple[RankedHost, DeviceShare | None] | tuple[None, None]:
    """Return the best ranked host on which ``needs`` fit, and the cells and devices that the server takes there.

    If NUMATopologyFilter and PciPassthroughFilter run, this is the first ranked host. Without them, or if a host is
    forced, hosts on which ``needs`` do not fit are skipped.
    """
    for ranked in decision.ranked:
        if not needs:
            return ranked, None
        share = needs.on(hosts, ranked.row)
        if share is not None:
            return ranked, share
    return None, None
