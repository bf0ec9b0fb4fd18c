# SPDX-License-Identifier: Apache-2.0
"""All errors that Kilonova raises deliberately, sorted by what the caller can do about them.

::

    KilonovaError
    ├── InvalidRequest        change the request
    │   ├── RequestFilterFailed   a request filter cannot satisfy it
    │   ├── SearchTooLarge        the search exceeds the limit of work for one request
    │   └── UnsupportedPolicy     no enabled rule implements the policy of the server group
    ├── NotFound              the resource does not exist
    ├── Forbidden             the user lacks the permission
    │   └── OverQuota             free resources, or ask for a higher limit
    ├── Conflict              read again, then retry
    │   ├── ClaimLost             a guard of the claim failed: choose a host again (internal, never reaches a client)
    │   ├── ConcurrentUpdate      a generation or compare-and-swap did not match
    │   └── UnexpectedTaskState   another operation of the server is running
    ├── NoValidHost           retry later, or request less
    │   └── RuleFailed            a scheduling rule or driver failed, so no decision was made
    ├── Unavailable           retry the same request later
    │   ├── TransferBroken        a transfer of image data broke off, or did not start
    │   │   └── TransferPostponed     the limit of concurrent transfers is reached
    │   ├── StorageFull           retry once an operator has freed disk space
    │   ├── FromNewerRelease      stored data that only a process of a newer release can read
    │   ├── AgentTooOld           retry once the agent of the host has been upgraded
    │   ├── DeadlineExceeded      the request timed out
    │   └── ClientGone            the client has closed the connection
    ├── DriverError           the hypervisor failed; another host may succeed
    │   ├── PortBindingFailed     the network service cannot connect a port to the host
    │   ├── GuestMissing          the hypervisor does not have this guest
    │   ├── GuestNotRunning       the operation requires a running guest
    │   ├── Unsupported           the hypervisor never supports this operation
    │   │   └── AbilityMissing        the driver lacks an ability
    │   ├── UnsupportedGuest      the host is healthy, but lacks a feature that the guest requires
    │   ├── ImageUnusable         the host is healthy, but the image is missing, damaged or unreachable
    │   └── MigrationAborted      a live migration was aborted on request
    └── ConfigurationError    the operator must change an option
"""

import errno
from typing import Any


class KilonovaError(Exception):
    """Base class of all errors. ``message`` is safe to show to the client; ``fields`` are for exception handlers."""

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields


class InvalidRequest(KilonovaError):
    """The request is invalid: the client must change it."""


class RequestFilterFailed(InvalidRequest):
    """A request filter cannot satisfy the request."""


class SearchTooLarge(InvalidRequest):
    """A search was stopped at its limit of work, without a result."""


class UnsupportedPolicy(InvalidRequest):
    """No enabled scheduling rule implements the policy of the server group."""


class NotFound(KilonovaError):
    """The requested resource does not exist."""


class Forbidden(KilonovaError):
    """The user lacks the permission for the request."""


class OverQuota(Forbidden):
    """The request exceeds a quota: free resources, or ask for a higher limit."""


class Conflict(KilonovaError):
    """The request conflicts with the current state: read again, then retry."""


class ClaimLost(Conflict):
    """A guard of the claim failed: choose a host again (internal, never reaches a client)."""


class ConcurrentUpdate(Conflict):
    """A generation or compare-and-swap did not match: another request changed the resource."""


class UnexpectedTaskState(Conflict):
    """Another operation of the server is running."""


class NoValidHost(KilonovaError):
    """No host satisfies the request. ``reason``: explanation by a scheduler driver, appended to the default message."""

    def __init__(self, message: str = "", *, reason: str | None = None, **fields: Any) -> None:
        super().__init__(message or f"No valid host was found. {reason or ''}".rstrip(), **fields)


class RuleFailed(NoValidHost):
    """A scheduling rule or driver raised an exception or returned an invalid result.

    The message names the rule or driver.
    """


class Unavailable(KilonovaError):
    """A temporary failure: retry the same request later."""


class TransferBroken(Unavailable):
    """A transfer of image data broke off, or did not start."""


class TransferPostponed(TransferBroken):
    """A transfer of image data must wait, because the limit of concurrent transfers is reached."""


class FromNewerRelease(Unavailable):
    """Stored data that only a newer release can read: a process of that release may handle the request."""

    code = "storage.from_newer_release"


class AgentTooOld(Unavailable):
    """An agent is two or more releases old, or does not support a message that the request needs."""


class DeadlineExceeded(Unavailable):
    """The request has exceeded its timeout."""


class ClientGone(Unavailable):
    """The client has closed the connection, so the request needs no answer."""


class StorageFull(Unavailable):
    """A disk is full.

    The message is for clients; ``what``, which names the disk and the system's error, is for operators.
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__("There is no disk space left to store this; nothing was changed.")
        self.what = f"there is no room on the disk of {where}: {reason}"


#: The errno values of a full disk, an exceeded disk quota and an exceeded file size limit.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def full_disk(error: OSError, folder: object = "a file that was being written") -> StorageFull:
    """Convert a full-disk OSError to StorageFull, which names the file, or ``folder`` if the error has no file name."""
    return StorageFull(str(error.filename or folder), error.strerror or str(error))


class DriverError(KilonovaError):
    """The hypervisor failed; another host may succeed."""


class PortBindingFailed(DriverError):
    """The network service cannot connect a port to the host. ``port_id``: the port."""

    def __init__(self, port_id: str) -> None:
        super().__init__(
            f"Binding failed for port {port_id}, please check neutron logs for more information.", port_id=port_id
        )


class HypervisorAway(DriverError):
    """The hypervisor is unreachable, or the connection to it broke during a call, whose result is then unknown."""

    def __init__(self) -> None:
        super().__init__("The hypervisor does not answer.")


class GuestMissing(DriverError):
    """The hypervisor does not have this guest."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"Guest {uuid} does not exist.")


class GuestNotRunning(DriverError):
    """The operation requires a running guest, and the guest is not running."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"Guest {uuid} does not run.")


class Unsupported(DriverError):
    """The hypervisor never supports this operation, for any guest."""


class AbilityMissing(Unsupported):
    """The driver lacks an ability; the host is healthy. ``ability``: its name in messages."""

    def __init__(self, ability: str) -> None:
        super().__init__(f"The hypervisor does not support {ability}.", ability=ability)


class UnsupportedGuest(DriverError):
    """The host cannot run this guest, but is healthy: the error does not count as a failed build of the host."""


class ImageUnusable(DriverError):
    """The image cannot be used, but the host is healthy: the error does not count as a failed build of the host."""


class SnapshotCancelled(DriverError):
    """A snapshot was cancelled on request."""

    def __init__(self) -> None:
        super().__init__("The snapshot was cancelled.")


class MigrationAborted(DriverError):
    def __init__(self) -> None:
        super().__init__("The live migration was aborted.")


class ConfigurationError(KilonovaError):
    """The configuration is invalid: the operator must change an option."""
