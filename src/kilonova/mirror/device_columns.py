# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI pools of every host: their usage in the database plus the usage of pending claims."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kilonova.model.host_devices import NOTHING, DeviceShare, HostDevices
from kilonova.scheduler.device_states import DeviceStates

_SLACK = 4096
_STATES_A_HOST = 4


class DeviceColumns:
    """NUMA cells and PCI pools by node uuid. The caller must hold the mirror's lock."""

    def __init__(self) -> None:
        self.states = DeviceStates()
        self._confirmed: dict[str, HostDevices] = {}
        self._assumed: dict[str, dict[str, DeviceShare]] = {}

    def clear(self) -> None:
        """Remove the values that came from the database, and keep the assumed claims."""
        self._confirmed.clear()

    def set(self, uuid: str, devices: HostDevices | None) -> None:
        """Store the NUMA cells and PCI pools that the database has for a node.

        ``devices``: None if the node has neither.
        """
        if devices is None:
            self._confirmed.pop(uuid, None)
        else:
            self._confirmed[uuid] = devices

    def assume(self, uuid: str, claim_id: str, share: DeviceShare) -> None:
        self._assumed.setdefault(uuid, {})[claim_id] = share

    def forget(self, uuid: str, claim_id: str) -> None:
        """Remove an assumed claim. Not an error if the claim is absent."""
        claims = self._assumed.get(uuid, {})
        claims.pop(claim_id, None)
        if not claims:
            self._assumed.pop(uuid, None)

    def number(self, uuid: str) -> int:
        """Return the number of the device state (used NUMA cells and PCI pools) of a node, assumed claims included."""
        devices = self._confirmed.get(uuid, NOTHING)
        for share in self._assumed.get(uuid, {}).values():
            devices = devices.taking(share)
        return self.states.number(devices)

    def numbers(self, uuids: Sequence[str]) -> NDArray[np.int32]:
        """Return the number of each node's device state. If too many states are stored, drop all of them first."""
        if self.has_too_many_states(len(uuids)):
            self.states = DeviceStates()
        if not self._confirmed:
            return np.zeros(len(uuids), dtype=np.int32)
        return np.array([self.number(uuid) for uuid in uuids], dtype=np.int32)

    def has_too_many_states(self, hosts: int) -> bool:
        """Tell whether so many device states are stored that most of them must be unused."""
        return len(self.states) > _SLACK + _STATES_A_HOST * hosts
