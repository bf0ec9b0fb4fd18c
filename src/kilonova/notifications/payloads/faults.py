# SPDX-License-Identifier: Apache-2.0
"""Why something failed, as notifications say it."""

from dataclasses import dataclass
from typing import ClassVar

from kilonova.conductor.workflow_engine.workflow import UNREACHABLE, Failure
from kilonova.notifications.payloads.payload import Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceptionPayload(Payload):
    """``exception``: NoValidHost, HostUnreachable or DriverError.

    ``traceback``: what administrators see in the details of a fault, without what users sent.
    """

    VERSION: ClassVar[str] = "1.1"

    module_name: str
    function_name: str
    exception: str
    exception_message: str
    traceback: str

    @classmethod
    def of(cls, kind: str, failure: Failure) -> "ExceptionPayload":
        """Return the failure of a workflow of some kind."""
        return cls(
            module_name=f"kilonova.conductor.workflows.{kind.replace('-', '_')}",
            function_name=failure.step.replace("-", "_") or "unknown",
            exception=name_of(failure),
            exception_message=failure.message,
            traceback=failure.details,
        )


def name_of(failure: Failure) -> str:
    """Return what kind of error a failure is."""
    if failure.step == "claim":
        return "NoValidHost"
    return "HostUnreachable" if failure.unreachable or failure.message == UNREACHABLE else "DriverError"
