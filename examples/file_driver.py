# SPDX-License-Identifier: Apache-2.0
"""The smallest hypervisor driver: its guests are entries in a file, and the driver has no optional ability.

docs/writing-a-driver.md explains this driver; ``kilonova.model.ability`` lists the optional abilities.
"""

import json
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kilonova.compute.virt.base import ShutdownTimeout
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.errors import GuestMissing, UnsupportedGuest
from kilonova.model.host import Capabilities, NodeReport
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.model.provider import Inventory


class FileDriver:
    """Driver whose guests are entries of guests.json in the host's folder."""

    def __init__(self, setup: HostSetup) -> None:
        self._setup = setup
        self._file = setup.folder / "guests.json"
        self._lock = threading.Lock()  # the agent calls the driver for different guests concurrently
        self._known = dict(self.list_guests())

    def report(self) -> NodeReport:
        ratios = self._setup.ratios
        return NodeReport(
            host=self._setup.host,
            hypervisor_hostname=self._setup.host,
            capabilities=Capabilities(hypervisor_type="file", supported_instances=(("x86_64", "file", "hvm"),)),
            inventories=(
                Inventory("VCPU", 8, max_unit=8, allocation_ratio=ratios.cpu),
                Inventory("MEMORY_MB", 16384, max_unit=16384, allocation_ratio=ratios.memory),
                Inventory("DISK_GB", 100, max_unit=100, allocation_ratio=ratios.disk),
            ),
        )

    def list_guests(self) -> Mapping[str, PowerState]:
        return {uuid: PowerState(guest["state"]) for uuid, guest in self._read().items()}

    def marked_guests(self) -> Mapping[str, datetime]:
        return {uuid: datetime.fromisoformat(guest["ordered_at"]) for uuid, guest in self._read().items()}

    def changed_guests(self) -> Mapping[str, PowerState]:
        with self._lock:
            known, self._known = self._known, dict(self.list_guests())
            gone = dict.fromkeys(known.keys() - self._known.keys(), PowerState.NOSTATE)
            return gone | {uuid: state for uuid, state in self._known.items() if state is not known.get(uuid)}

    def spawn(self, guest: GuestSpec) -> None:
        model = guest.image_properties.get("hw_vif_model", "virtio")
        if model != "virtio":
            raise UnsupportedGuest(f"The hypervisor does not support hw_vif_model={model}.")
        if guest.image is not None:
            self._setup.images.fetch(guest.image)  # fetch() returns the image file; a real driver makes a disk of it
        self._put(guest.uuid, PowerState.RUNNING, str(guest.ordered_at))

    def destroy(self, uuid: str) -> None:
        self._put(uuid, PowerState.NOSTATE)

    def start(self, uuid: str) -> None:
        self._require(uuid)
        self._put(uuid, PowerState.RUNNING)

    def stop(self, uuid: str, timeout: ShutdownTimeout | None = None) -> None:
        runs = self._require(uuid) is PowerState.RUNNING
        if runs and timeout is not None:
            timeout.wait(0.1)  # a real driver waits for the guest's shutdown until wait() returns False
        self._put(uuid, PowerState.SHUTDOWN)

    def close(self) -> None:
        pass  # this driver has no connection or thread to close

    def _require(self, uuid: str) -> PowerState:
        state = self.list_guests().get(uuid)
        if state is None:
            raise GuestMissing(uuid)
        return state

    def _read(self) -> dict[str, Any]:
        guests: dict[str, Any] = json.loads(self._file.read_text()) if self._file.exists() else {}
        return guests

    def _put(self, uuid: str, state: PowerState, ordered_at: str | None = None) -> None:
        with self._lock:
            guests = self._read()
            if state is PowerState.NOSTATE:
                guests.pop(uuid, None)
                self._known.pop(uuid, None)
            else:
                guests[uuid] = {"ordered_at": ordered_at or guests[uuid]["ordered_at"], "state": state}
                self._known[uuid] = state
            draft = self._file.with_suffix(".part")
            draft.write_text(json.dumps(guests))
            draft.replace(self._file)  # atomic: after a crash the file holds the old or the new guests
