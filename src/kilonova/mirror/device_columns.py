# SPDX-License-Identifier: Apache-2.0
"""The NUMA cells and PCI pools of every host: what the database holds, and with what claims under way take."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kilonova.model.host_devices import NOTHING, DeviceShare, HostDevices
from kilonova.scheduler.device_states import DeviceStates

_SLACK = 4096
_STATES_A_HOST = 4


class DeviceColumns:
    """Hosts are known by the uuid of their hypervisor. Not for use without the mirror's lock."""

    def __init__(self) -> None:
        self.states = DeviceStates()
        self._confirmed: dict[str, HostDevices] = {}
        self._assumed: dict[str, dict[str, DeviceShare]] = {}

    def clear(self) -> None:
        """Forget what the database holds; what is assumed stays."""
        self._confirmed.clear()

    def set(self, uuid: str, devices: HostDevices | None) -> None:
        """Take over what the database holds of a host, None when it has neither cells nor pools."""
        if devices is None:
            self._confirmed.pop(uuid, None)
        else:
            self._confirmed[uuid] = devices

    def assume(self, uuid: str, claim_id: str, share: DeviceShare) -> None:
        self._assumed.setdefault(uuid, {})[claim_id] = share

    def forget(self, uuid: str, claim_id: str) -> None:
        """Take an assumption back; absent is success."""
        claims = self._assumed.get(uuid, {})
        claims.pop(claim_id, None)
        if not claims:
            self._assumed.pop(uuid, None)

    def number(self, uuid: str) -> int:
        """Return the number of the state of a host, assumed claims included."""
        devices = self._confirmed.get(uuid, NOTHING)
        for share in self._assumed.get(uuid, {}).values():
            devices = devices.taking(share)
        return self.states.number(devices)

    def numbers(self, uuids: Sequence[str]) -> NDArray[np.int32]:
        """Return the number of the state of each host, after dropping states that no host has any more."""
        if self.has_too_many_states(len(uuids)):
            self.states = DeviceStates()
        if not self._confirmed:
            return np.zeros(len(uuids), dtype=np.int32)
        return np.array([self.number(uuid) for uuid in uuids], dtype=np.int32)

    def has_too_many_states(self, hosts: int) -> bool:
        """Tell whether most states are of the past."""
        return len(self.states) > _SLACK + _STATES_A_HOST * hosts
