# SPDX-License-Identifier: Apache-2.0
"""Every error Kilonova raises on purpose, sorted by what the caller can do about it.

::

    KilonovaError
    ├── InvalidRequest        change the request
    │   ├── RequestFilterFailed   a request filter found no way to satisfy it
    │   ├── SearchTooLarge        it takes more work to answer than one request may cause
    │   └── UnsupportedPolicy     no configured rule serves the policy of the server group
    ├── NotFound              the thing is not there
    ├── Forbidden             not with these rights
    │   └── OverQuota             free some, or have the limit raised
    ├── Conflict              read again, then retry
    │   ├── ClaimLost             a guard of the claim failed: decide again (internal, never reaches a client)
    │   ├── ConcurrentUpdate      a generation or compare-and-set did not hold
    │   └── UnexpectedTaskState   somebody else owns the operation
    ├── NoValidHost           wait, or ask for less
    │   └── RuleFailed            a scheduling rule or driver broke; nothing was decided
    ├── Unavailable           retry as it is
    │   ├── TransferBroken        image data stopped in the middle, or never began to come
    │   │   └── TransferPostponed     others are being transferred
    │   ├── StorageFull           the same, once an operator has made room
    │   ├── FromNewerRelease      only a process of a newer release can read it
    │   ├── AgentTooOld           once the agent of that host has been upgraded
    │   ├── DeadlineExceeded      the time for the request is over
    │   └── ClientGone            nobody waits for the answer any more
    ├── DriverError           the hypervisor refused; another host may not
    │   ├── GuestMissing          it does not have this guest
    │   ├── GuestNotRunning       it has it, and the guest would have to run
    │   ├── Unsupported           it never can do this
    │   │   └── AbilityMissing        its driver does not do this at all
    │   ├── UnsupportedGuest      it is well, but lacks what the guest asks for
    │   ├── ImageUnusable         it is well, and the image is gone, damaged or not to be had
    │   └── MigrationAborted      it did what it was asked to: the live migration ended early
    └── ConfigurationError    the operator must change a setting
"""

import errno
from typing import Any


class KilonovaError(Exception):
    """Root of the tree. ``message`` is safe to show to the client; ``fields`` are for those who catch it."""

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields


class InvalidRequest(KilonovaError):
    """Change the request."""


class RequestFilterFailed(InvalidRequest):
    """A request filter found no way to satisfy it."""


class SearchTooLarge(InvalidRequest):
    """A search was given up before it could tell whether there is an answer."""


class UnsupportedPolicy(InvalidRequest):
    """No configured rule serves the policy of the server group."""


class NotFound(KilonovaError):
    """The thing is not there."""


class Forbidden(KilonovaError):
    """Not with these rights."""


class OverQuota(Forbidden):
    """Free some, or have the limit raised."""


class Conflict(KilonovaError):
    """Read again, then retry."""


class ClaimLost(Conflict):
    """A guard of the claim failed: decide again (internal, never reaches a client)."""


class ConcurrentUpdate(Conflict):
    """A generation or compare-and-set did not hold."""


class UnexpectedTaskState(Conflict):
    """Somebody else owns the operation."""


class NoValidHost(KilonovaError):
    """``reason``: why, in the words of a scheduler driver; the message says the rest."""

    def __init__(self, message: str = "", *, reason: str | None = None, **fields: Any) -> None:
        super().__init__(message or f"No valid host was found. {reason or ''}".rstrip(), **fields)


class RuleFailed(NoValidHost):
    """A rule or a scheduler driver raised or answered nonsense. The message names it; the cause is chained."""


class Unavailable(KilonovaError):
    """Retry as it is."""


class TransferBroken(Unavailable):
    """Image data stopped in the middle, or never began to come."""


class TransferPostponed(TransferBroken):
    """It is the turn of others."""


class FromNewerRelease(Unavailable):
    """Something stored that only a newer release can read: other processes may be able to help."""

    code = "storage.from_newer_release"


class AgentTooOld(Unavailable):
    """An agent does not know a message that it would have to be sent, or is two releases old."""


class DeadlineExceeded(Unavailable):
    """The time for the request is over."""


class ClientGone(Unavailable):
    """Nobody waits for the answer any more."""


class StorageFull(Unavailable):
    """A disk has no room. The message is for clients; ``what``, the disk and what its system said are for operators."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__("There is no room left to store this; nothing was changed.")
        self.what = f"there is no room on the disk of {where}: {reason}"


#: What the system says where there is no room on a disk, by a quota, or in a file of limited size.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def full_disk(error: OSError, folder: object = "a file that was being written") -> StorageFull:
    """Say of an error of the system which file had no room, or at least in which folder."""
    return StorageFull(str(error.filename or folder), error.strerror or str(error))


class DriverError(KilonovaError):
    """The hypervisor refused; another host may not."""


class HypervisorAway(DriverError):
    """The hypervisor cannot be reached, or has gone away in the middle of a call. Nobody knows how far that came."""

    def __init__(self) -> None:
        super().__init__("The hypervisor does not answer.")


class GuestMissing(DriverError):
    """The hypervisor does not have this guest."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"Guest {uuid} does not exist.")


class GuestNotRunning(DriverError):
    """The guest would have to run."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"Guest {uuid} does not run.")


class Unsupported(DriverError):
    """The hypervisor never can do this, to any guest."""


class AbilityMissing(Unsupported):
    """The driver lacks an ability, and the host has nothing wrong with it. ``ability``: its name on the wire."""

    def __init__(self, ability: str) -> None:
        super().__init__(f"The hypervisor does not support {ability}.", ability=ability)


class UnsupportedGuest(DriverError):
    """The hypervisor cannot make this guest and has nothing wrong with it: no failed build of the host."""


class ImageUnusable(DriverError):
    """The image cannot be had, and the host has nothing wrong with it: no failed build of the host."""


class SnapshotCancelled(DriverError):
    """A snapshot was given up because it was asked to be."""

    def __init__(self) -> None:
        super().__init__("The snapshot was cancelled.")


class MigrationAborted(DriverError):
    def __init__(self) -> None:
        super().__init__("The live migration was aborted.")


class ConfigurationError(KilonovaError):
    """The operator must change a setting."""
