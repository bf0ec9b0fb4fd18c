# SPDX-License-Identifier: Apache-2.0
"""Guests of a simulated hypervisor are started, stopped and rebooted."""

from kilonova.compute.virt.fake.hypervisor import SimulatedHypervisor
from kilonova.model.instance import PowerState


class Power(SimulatedHypervisor):
    """Changes the power state of a guest."""

    def start(self, uuid: str) -> None:
        self._set_state(uuid, PowerState.RUNNING)

    def stop(self, uuid: str) -> None:
        self._set_state(uuid, PowerState.SHUTDOWN)

    def reboot(self, uuid: str, *, hard: bool) -> None:
        del hard
        self._set_state(uuid, PowerState.RUNNING)
