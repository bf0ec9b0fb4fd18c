# SPDX-License-Identifier: Apache-2.0
"""Network interfaces of simulated guests. A guest has a list of ports; nothing is connected."""

from collections.abc import Callable
from dataclasses import replace

from kilonova.compute.virt.fake.hypervisor import SimulatedHypervisor
from kilonova.errors import DriverError
from kilonova.model.instance import PowerState
from kilonova.model.network_info import Vif
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Interfaces:
    """Attaches interfaces to guests and detaches them. The state file keeps them, so they outlive the agent."""

    hypervisor: SimulatedHypervisor

    def attach_interface(self, uuid: str, vif: Vif) -> None:
        self._change(uuid, lambda ports: ports if vif.port_id in ports else (*ports, vif.port_id))

    def detach_interface(self, uuid: str, vif: Vif) -> None:
        self._change(uuid, lambda ports: tuple(port for port in ports if port != vif.port_id))

    def _change(self, uuid: str, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        with self.hypervisor.lock:
            guest = self.hypervisor.present(uuid)
            if guest.state is PowerState.SUSPENDED:
                raise DriverError(f"Guest {uuid} is suspended: its interfaces cannot be changed.")
            self.hypervisor.guests.put(uuid, guest=replace(guest, ports=change(guest.ports)))
