# SPDX-License-Identifier: Apache-2.0
"""Events that the workflow engine emits on every change of a workflow, for log lines, metrics and notifications."""

from collections.abc import Callable
from dataclasses import field
from enum import StrEnum
from typing import Any

from kilonova.conductor.workflow_engine.run import Failure
from kilonova.records import dataclass


class Phase(StrEnum):
    """Kind of a workflow event. ``BROKE``: the step raised an unexpected error and is retried.

    ``AWAITS_HOST``: the step can be neither done nor undone without an absent host, so the workflow waits for the host.

    ``STEP_BEGINS`` goes only to observers that are registered for it.
    """

    STEP_BEGINS = "step begins"
    STEP_DONE = "step done"
    STEP_FAILED = "step failed"
    BROKE = "broke"
    AWAITS_HOST = "awaits host"
    RESTARTED = "restarted"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowEvent:
    """A change of a workflow, reported after its commit, or the start of a step.

    ``step``: the step that started, was done or failed. ``word``: the EVENT in the log line of a workflow that is done;
    see ``server_log``.
    ``message``: why the step failed. ``seconds``: duration of the step. ``undoing``: True if the step was being undone.
    ``facts``: the workflow's facts. They may contain a password, so never log them whole.
    ``failure``: why the step failed or the workflow rolled back. ``is_interrupted``: True if an interrupt requests a
    rollback.
    """

    phase: Phase
    kind: str
    step: str
    instance_uuid: str
    request_id: str
    host: str | None = None
    word: str = ""
    message: str = ""
    seconds: float = 0.0
    undoing: bool = False
    facts: Any = field(default=None, repr=False)
    failure: Failure | None = None
    is_interrupted: bool = False


#: Callback for every event. It is called on the engine's threads, never under a lock, and must be quick.
Observer = Callable[[WorkflowEvent], None]
