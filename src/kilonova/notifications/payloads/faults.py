# SPDX-License-Identifier: Apache-2.0
"""Payload for failed operations."""

from typing import ClassVar

from kilonova.conductor.workflow_engine.run import UNREACHABLE, Failure
from kilonova.notifications.payloads.payload import Payload
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceptionPayload(Payload):
    """Nova's ExceptionPayload. ``exception``: NoValidHost, HostUnreachable or DriverError.

    ``traceback``: the details of the fault that the API shows to administrators; they contain no user input.
    """

    VERSION: ClassVar[str] = "1.1"

    module_name: str
    function_name: str
    exception: str
    exception_message: str
    traceback: str

    @classmethod
    def of(cls, kind: str, failure: Failure) -> "ExceptionPayload":
        """Build the payload of a workflow's failure. ``kind``: kind of the workflow."""
        return cls(
            module_name=f"kilonova.conductor.workflows.{kind.replace('-', '_')}",
            function_name=failure.step.replace("-", "_") or "unknown",
            exception=name_of(failure),
            exception_message=failure.message,
            traceback=failure.details,
        )


def name_of(failure: Failure) -> str:
    """Return the exception name of a failure."""
    if failure.step == "claim":
        return "NoValidHost"
    return "HostUnreachable" if failure.unreachable or failure.message == UNREACHABLE else "DriverError"
