# SPDX-License-Identifier: Apache-2.0
"""Every error Kilonova raises on purpose, sorted by what the caller can do about it.

::

    KilonovaError
    ├── InvalidRequest        change the request
    │   ├── RequestFilterFailed   a request filter found no way to satisfy it
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
    ├── DriverError           the hypervisor refused; another host may not
    └── ConfigurationError    the operator must change a setting

``code`` is stable and goes over the wire; ``retryable`` says whether the same request may succeed later.
"""

from typing import Any, ClassVar


class KilonovaError(Exception):
    """Root of the tree. ``message`` is safe to show to the client; ``fields`` travel with it over messaging."""

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


class DriverError(KilonovaError):
    code = "driver.error"
    retryable = True


class ConfigurationError(KilonovaError):
    code = "configuration.invalid"
