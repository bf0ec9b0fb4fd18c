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

    Calls block; the agent determines their threads and their order. Every call is idempotent: it is no error if the
    guest is already in the requested state, or is already removed.
    """

    def report(self) -> NodeReport:
        """Return the report of the hypervisor: capabilities, inventory, traits."""

    def list_guests(self) -> Mapping[str, PowerState]:
        """Return instance uuid → power state of all guests. An instance with only a kept guest is SHUTDOWN."""

    def changed_guests(self) -> Mapping[str, PowerState]:
        """Return instance uuid → power state of the guests that changed without an order since the last call.

        The state of a removed guest is NOSTATE. A change that this method misses still appears in :meth:`list_guests`.
        """

    def marked_guests(self) -> Mapping[str, datetime]:
        """Return instance uuid → ``GuestSpec.ordered_at`` for the guests that have Kilonova's mark in their metadata.

        The mark consists of the uuid and this time. A driver writes it into the guest's own metadata when it creates
        the guest, so the mark moves with the guest. If an instance has both a kept guest and the new guest of a
        resize, the time in the mark of the new guest is returned.
        """

    def spawn(self, guest: GuestSpec) -> None:
        """Create and start a guest; no error if the guest already runs.

        Raises: DriverError; then no part of the guest is left. Its subclass UnsupportedGuest means that the host is
        healthy but lacks a feature that the guest requires.
        """

    def destroy(self, uuid: str) -> None:
        """Remove the guest and kept guest of an instance, with all disks; no error if absent. Raises: DriverError."""

    def start(self, uuid: str) -> None:
        """Power a guest on. Raises: DriverError."""

    def stop(self, uuid: str, timeout: ShutdownTimeout | None = None) -> None:
        """Shut a guest down gracefully, and power it off if it still runs when ``timeout`` is over.

        ``timeout``: None to power the guest off at once. Raises: DriverError, AgentStopsError.
        """

    def close(self) -> None:
        """Release connections and listening sockets before the process stops. Guests are not changed."""
