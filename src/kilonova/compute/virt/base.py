# SPDX-License-Identifier: Apache-2.0
"""Interface of hypervisor drivers. Optional abilities are in :mod:`kilonova.compute.virt.abilities`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from kilonova.model.host import NodeReport
from kilonova.model.instance import GuestSpec, PowerState


class AgentStopsError(Exception):
    """The agent is stopping: the driver abandons its work without cleanup, as after a crash."""


class ShutdownTimeout(Protocol):
    """Shutdown timeout of a guest, for the driver that waits for the shutdown."""

    def wait(self, seconds: float) -> bool:
        """Wait for ``seconds``; return False if the timeout is over and the guest has to be powered off.

        Raises: AgentStopsError.
        """


class VirtDriver(Protocol):
    """Creates, removes, starts, stops and lists guests.

    Calls block; the agent owns threads and order. Every call is idempotent: no error if the guest already is as
    requested, or was already removed.
    """

    def report(self) -> NodeReport:
        """Return the report of the hypervisor: capabilities, inventory, traits."""

    def list_guests(self) -> Mapping[str, PowerState]:
        """Return instance uuid → power state of all guests; a guest that is only kept for a move is shut down."""

    def changed_guests(self) -> Mapping[str, PowerState]:
        """Return instance uuid → power state of the guests that changed without an order since the last call.

        The state of a guest that was removed is NOSTATE. A change that is missed here appears in :meth:`list_guests`.
        """

    def marked_guests(self) -> Mapping[str, datetime]:
        """Return instance uuid → ``GuestSpec.ordered_at`` for the guests that bear Kilonova's mark.

        A driver writes uuid and time into the guest's own metadata when it creates the guest, so they move along with
        it. If an instance has both a kept guest and its successor, the mark of the successor is returned.
        """

    def spawn(self, guest: GuestSpec) -> None:
        """Create and start a guest; no error if the guest already runs. Raises: DriverError, leaving nothing behind.

        UnsupportedGuest, a DriverError, means that the host is healthy but lacks a feature that the guest requests.
        """

    def destroy(self, uuid: str) -> None:
        """Remove a guest, including a kept one, with all disks; no error if absent. Raises: DriverError."""

    def start(self, uuid: str) -> None:
        """Power a guest on. Raises: DriverError."""

    def stop(self, uuid: str, timeout: ShutdownTimeout | None = None) -> None:
        """Shut a guest down gracefully, and power it off after the timeout ``timeout``; None: power it off at once.

        Raises: DriverError, AgentStopsError.
        """

    def close(self) -> None:
        """Release connections and listening sockets before the process stops. Guests are not changed."""
