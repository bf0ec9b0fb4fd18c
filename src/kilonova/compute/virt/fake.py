# SPDX-License-Identifier: Apache-2.0
"""A simulated hypervisor. Its guests live in a file of its own, so it outlives its agent as a real one would."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import orjson

from kilonova.errors import DriverError, UnsupportedGuest
from kilonova.model.host import NodeReport
from kilonova.model.instance import GuestSpec, PowerState
from kilonova.scenario.model import AllocationRatios, SimulatedHost


class FakeDriver:
    """Simulates one host of a scenario. ``sleep`` stands for the time that a real hypervisor would take."""

    def __init__(
        self,
        host: SimulatedHost,
        state_file: Path,
        ratios: AllocationRatios,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._host = host
        self._file = state_file
        self._ratios = ratios
        self._sleep = sleep
        self._lock = threading.Lock()
        self._failures_left = host.failing_spawns
        self._guests: dict[str, int] = self._read()

    def report(self) -> NodeReport:
        host = self._host
        return NodeReport(
            host=host.name,
            hypervisor_hostname=host.hypervisor_hostname,
            capabilities=host.capabilities,
            inventories=host.reported_inventories(self._ratios),
            traits=host.reported_traits,
            metrics=host.metrics,
            devices=host.devices,
        )

    def list_guests(self) -> Mapping[str, PowerState]:
        with self._lock:
            return {uuid: PowerState(state) for uuid, state in self._guests.items()}

    def spawn(self, guest: GuestSpec) -> None:
        if self._host.spawn_delay_s:
            self._sleep(self._host.spawn_delay_s)
        with self._lock:
            if guest.uuid in self._guests:
                return
            if (reason := self._host.why_not(guest.image_properties)) is not None:
                raise UnsupportedGuest(reason)
            if self._failures_left:
                self._failures_left -= self._failures_left > 0
                raise DriverError(f"Simulated failure to start guest {guest.name}.")
            self._store({**self._guests, guest.uuid: int(PowerState.RUNNING)})

    def destroy(self, uuid: str) -> None:
        if self._host.destroy_delay_s:
            self._sleep(self._host.destroy_delay_s)
        with self._lock:
            if uuid in self._guests:
                self._store({other: state for other, state in self._guests.items() if other != uuid})

    def start(self, uuid: str) -> None:
        self._set(uuid, PowerState.RUNNING)

    def stop(self, uuid: str) -> None:
        self._set(uuid, PowerState.SHUTDOWN)

    def reboot(self, uuid: str, *, hard: bool) -> None:
        del hard
        self._set(uuid, PowerState.RUNNING)

    def _set(self, uuid: str, state: PowerState) -> None:
        with self._lock:
            if uuid not in self._guests:
                raise DriverError(f"Guest {uuid} does not exist.")
            if self._guests[uuid] != state:
                self._store({**self._guests, uuid: int(state)})

    def _read(self) -> dict[str, int]:
        try:
            guests: dict[str, int] = orjson.loads(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        return guests

    def _store(self, guests: dict[str, int]) -> None:
        """Replace the file in one step, then what is known here: a kill or a full disk leaves both as they were."""
        draft = self._file.with_suffix(".new")
        try:
            draft.touch(0o600)
            draft.write_bytes(orjson.dumps(guests))
            os.replace(draft, self._file)  # noqa: PTH105 - the one-step replace is the point
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise DriverError(f"Host {self._host.name} cannot store its guests: {error.strerror}.") from error
        self._guests = guests
