# SPDX-License-Identifier: Apache-2.0
"""What every hypervisor driver must do. Calls block; the agent owns threads and order."""

from collections.abc import Mapping
from typing import Protocol

from kilonova.model.host import NodeReport
from kilonova.model.instance import GuestSpec, PowerState


class VirtDriver(Protocol):
    """Every call may be repeated: "already so" and "absent" are success."""

    def report(self) -> NodeReport:
        """Describe the hypervisor: capabilities, inventory, traits."""

    def list_guests(self) -> Mapping[str, PowerState]:
        """Return every guest by instance uuid."""

    def spawn(self, guest: GuestSpec) -> None:
        """Create and start a guest; one that runs already is success. Raises: DriverError, leaving nothing behind.

        UnsupportedGuest, a DriverError, says that the host is well and lacks what the guest asks for.
        """

    def destroy(self, uuid: str) -> None:
        """Remove a guest and its disks; absent is success. Raises: DriverError."""

    def start(self, uuid: str) -> None:
        """Power a guest on. Raises: DriverError."""

    def stop(self, uuid: str) -> None:
        """Power a guest off, cleanly if it obeys. Raises: DriverError."""

    def reboot(self, uuid: str, *, hard: bool) -> None:
        """Restart a guest. Raises: DriverError."""
