# SPDX-License-Identifier: Apache-2.0
"""Power state changes of libvirt guests: start, stop, pause and suspend."""

from time import monotonic

from kilonova.compute.virt.base import ShutdownTimeout
from kilonova.compute.virt.libvirt.connection import explained
from kilonova.compute.virt.libvirt.domains import OwnDomain
from kilonova.compute.virt.libvirt.hypervisor import LibvirtHost
from kilonova.compute.virt.libvirt.rescued import from_own_disk
from kilonova.errors import DriverError
from kilonova.model.instance import PowerState
from kilonova.records import dataclass

#: All in seconds. _LOOK_S: interval of the checks whether a guest has shut down. _PRESS_AGAIN_S, _LONGEST_S: first and
#: longest pause before the power button of the guest is pressed again.
_LOOK_S, _PRESS_AGAIN_S, _LONGEST_S = 0.1, 1.0, 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Power:
    """Changes the power state of a guest."""

    host: LibvirtHost

    def start(self, uuid: str) -> None:
        with self.host.changes.ordered(uuid, PowerState.RUNNING):
            self.start_domain(self.host.domains.get(uuid))

    def stop(self, uuid: str, timeout: ShutdownTimeout | None = None) -> None:
        with self.host.changes.ordered(uuid, PowerState.SHUTDOWN):
            self.stop_domain(self.host.domains.get(uuid), timeout)

    def pause(self, uuid: str) -> None:
        with self.host.changes.ordered(uuid, PowerState.PAUSED):
            domain = self._require(uuid, PowerState.RUNNING, PowerState.PAUSED)
            if domain is not None:
                with explained(f"pause guest {uuid}"):
                    domain.handle.suspend()

    def unpause(self, uuid: str) -> None:
        with self.host.changes.ordered(uuid, PowerState.RUNNING):
            domain = self._require(uuid, PowerState.PAUSED, PowerState.RUNNING)
            if domain is not None:
                with explained(f"unpause guest {uuid}"):
                    domain.handle.resume()

    def suspend(self, uuid: str) -> None:
        with self.host.changes.ordered(uuid, PowerState.SUSPENDED):
            domain = self._require(uuid, PowerState.RUNNING, PowerState.SUSPENDED)
            if domain is not None:
                with explained(f"suspend guest {uuid}"):
                    domain.handle.managedSave()

    def resume(self, uuid: str) -> None:
        with self.host.changes.ordered(uuid, PowerState.RUNNING):
            domain = self._require(uuid, PowerState.SUSPENDED, PowerState.RUNNING)
            if domain is not None:
                domain.power_on()

    def start_domain(self, domain: OwnDomain) -> None:
        """Start a guest from its own disk, unless it is running. Raises: DriverError.

        A paused or crashed guest is powered off first.
        """
        state = domain.power_state()
        if state is PowerState.RUNNING:
            return
        if state in {PowerState.PAUSED, PowerState.CRASHED}:
            domain.power_off()
        from_own_disk(self.host, domain).power_on()

    def stop_domain(self, domain: OwnDomain, timeout: ShutdownTimeout | None) -> None:
        """Shut a running guest down gracefully, and power it off if it still runs when ``timeout`` is over.

        Raises: DriverError, AgentStopsError.
        """
        if timeout is not None and domain.power_state() is PowerState.RUNNING:
            _wait_for_shutdown(domain, timeout)
        domain.power_off()

    def _require(self, uuid: str, before: PowerState, after: PowerState) -> OwnDomain | None:
        """Return a guest in the state ``before``, or None if it is in the state ``after`` already.

        Raises: DriverError.
        """
        domain = self.host.domains.get(uuid)
        state = domain.power_state()
        if state is after:
            return None
        if state is not before:
            raise DriverError(f"Guest {uuid} is {state.name.lower()}, not {before.name.lower()}.")
        return domain


def _wait_for_shutdown(domain: OwnDomain, timeout: ShutdownTimeout) -> None:
    """Wait until the guest is off or the timeout is over.

    The power button is pressed repeatedly, since a guest that is still booting ignores it. Raises: AgentStopsError.
    """
    press_at, pause_s = monotonic(), _PRESS_AGAIN_S
    while domain.power_state() is PowerState.RUNNING:
        if monotonic() >= press_at:
            domain.ask_to_shut_down()
            press_at, pause_s = monotonic() + pause_s, min(2 * pause_s, _LONGEST_S)
        if not timeout.wait(_LOOK_S):
            return
