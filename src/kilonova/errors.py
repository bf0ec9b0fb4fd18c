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
    │   ├── StorageFull           the same, once an operator has made room
    │   ├── FromNewerRelease      only a process of a newer release can read it
    │   ├── DeadlineExceeded      the time for the request is over
    │   └── ClientGone            nobody waits for the answer any more
    ├── DriverError           the hypervisor refused; another host may not
    │   ├── UnsupportedGuest      it is well, but lacks what the guest asks for
    │   └── MigrationAborted      it did what it was asked to: the live migration ended early
    └── ConfigurationError    the operator must change a setting

``code`` is stable and goes over the wire; ``retryable`` says whether the same request may succeed later.
"""

import errno
from typing import Any, ClassVar


class KilonovaError(Exception):
    """Root of the tree. ``message`` is safe to show to the client; ``fields`` are for those who catch it."""

    code: ClassVar[str] = "kilonova.error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields


class InvalidRequest(KilonovaError):
    code = "request.invalid"


class RequestFilterFailed(InvalidRequest):
    code = "request.filter_failed"


class SearchTooLarge(InvalidRequest):
    """A search was given up before it could tell whether there is an answer."""

    code = "request.search_too_large"


class UnsupportedPolicy(InvalidRequest):
    code = "request.unsupported_policy"


class NotFound(KilonovaError):
    code = "resource.not_found"


class Forbidden(KilonovaError):
    code = "policy.forbidden"


class OverQuota(Forbidden):
    code = "quota.exceeded"


class Conflict(KilonovaError):
    code = "resource.conflict"


class ClaimLost(Conflict):
    code = "claim.lost"
    retryable = True


class ConcurrentUpdate(Conflict):
    code = "resource.concurrent_update"
    retryable = True


class UnexpectedTaskState(Conflict):
    code = "instance.unexpected_task_state"


class NoValidHost(KilonovaError):
    """``reason``: why, in the words of a scheduler driver; the message says the rest."""

    code = "scheduler.no_valid_host"
    retryable = True

    def __init__(self, message: str = "", *, reason: str | None = None, **fields: Any) -> None:
        super().__init__(message or f"No valid host was found. {reason or ''}".rstrip(), **fields)


class RuleFailed(NoValidHost):
    """A rule or a scheduler driver raised or answered nonsense. The message names it; the cause is chained."""

    code = "scheduler.rule_failed"
    retryable = False


class Unavailable(KilonovaError):
    code = "service.unavailable"
    retryable = True


class FromNewerRelease(Unavailable):
    """Something stored that only a newer release can read: other processes may be able to help."""

    code = "storage.from_newer_release"


class DeadlineExceeded(Unavailable):
    code = "request.deadline_exceeded"


class ClientGone(Unavailable):
    code = "request.client_gone"


class StorageFull(Unavailable):
    """A disk has no room. The message is for clients; ``what``, the disk and what its system said are for operators."""

    code = "storage.full"

    def __init__(self, where: str, reason: str) -> None:
        super().__init__("There is no room left to store this; nothing was changed.")
        self.what = f"there is no room on the disk of {where}: {reason}"


#: What the system says where there is no room on a disk, by a quota, or in a file of limited size.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def full_disk(error: OSError, folder: object = "a file that was being written") -> StorageFull:
    """Say of an error of the system which file had no room, or at least in which folder."""
    return StorageFull(str(error.filename or folder), error.strerror or str(error))


class DriverError(KilonovaError):
    code = "driver.error"
    retryable = True


class UnsupportedGuest(DriverError):
    """The hypervisor cannot make this guest and has nothing wrong with it: no failed build of the host."""

    code = "driver.unsupported_guest"


class MigrationAborted(DriverError):
    code = "driver.migration_aborted"

    def __init__(self) -> None:
        super().__init__("The live migration was aborted.")


class ConfigurationError(KilonovaError):
    code = "configuration.invalid"
