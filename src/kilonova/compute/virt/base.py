# SPDX-License-Identifier: Apache-2.0
"""What every hypervisor driver must do. What it may do besides is in :mod:`kilonova.compute.virt.abilities`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from kilonova.model.host import NodeReport
from kilonova.model.instance import GuestSpec, PowerState


class AgentStopsError(Exception):
    """The agent ends: a driver leaves what it was doing as it is, as it would be left by a crash."""


class ShutdownPatience(Protocol):
    """How long a driver waits for a guest that it has asked to shut down."""

    def wait(self, seconds: float) -> bool:
        """Wait so long, and tell whether the guest may take longer. If not it has to be powered off.

        Raises: AgentStopsError.
        """


class VirtDriver(Protocol):
    """Makes guests, removes them, starts and stops them, and says which there are.

    Calls block; the agent owns threads and order. Every call is idempotent: "already so" and "absent" are success.
    """

    def report(self) -> NodeReport:
        """Describe the hypervisor: capabilities, inventory, traits."""

    def list_guests(self) -> Mapping[str, PowerState]:
        """Return every guest by instance uuid; one that is only kept is shut down."""

    def changed_guests(self) -> Mapping[str, PowerState]:
        """Return the guests whose power state has changed since the last call without being told to, by instance uuid.

        One that is gone has none: NOSTATE. What is missed here is found by :meth:`list_guests`.
        """

    def marked_guests(self) -> Mapping[str, datetime]:
        """Return instance uuid → ``GuestSpec.ordered_at``, for the guests that bear our mark.

        A driver writes both into a guest's own metadata when it makes it, so that they go where the guest goes. Of one
        that is kept and has a successor, the successor's counts.
        """

    def spawn(self, guest: GuestSpec) -> None:
        """Create and start a guest; one that runs already is success. Raises: DriverError, leaving nothing behind.

        UnsupportedGuest, a DriverError, says that the host is well and lacks what the guest asks for.
        """

    def destroy(self, uuid: str) -> None:
        """Remove a guest, the kept one too, and their disks; absent is success. Raises: DriverError."""

    def start(self, uuid: str) -> None:
        """Power a guest on. Raises: DriverError."""

    def stop(self, uuid: str, patience: ShutdownPatience | None = None) -> None:
        """Ask a guest to shut down, and power it off once ``patience`` is over; without any, at once.

        Raises: DriverError, AgentStopsError.
        """

    def close(self) -> None:
        """Let go of what ends with this process anyway: connections, listening sockets. Guests stay as they are."""
