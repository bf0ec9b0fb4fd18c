# SPDX-License-Identifier: Apache-2.0
"""What the runner tells of every workflow: one typed event a turn, for log lines, metrics and notifications."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kilonova.conductor.workflow_engine.workflow import Failure


class Phase(StrEnum):
    """What has happened to a workflow. ``BROKE``: its step is tried again.

    ``STEP_BEGINS`` is told only to those who ask for it.
    """

    STEP_BEGINS = "step begins"
    STEP_DONE = "step done"
    STEP_FAILED = "step failed"
    BROKE = "broke"
    RESTARTED = "restarted"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True)
class WorkflowEvent:
    """One turn of a workflow, told after the commit that made it so, or a step of it that begins.

    ``step``: that was done or failed. ``word``: what a server is when the workflow is done.
    ``message``: why it failed. ``seconds``: since the step began. ``undoing``: the step was being undone.
    ``facts``: what the workflow knows; they may hold a password, so they are never shown whole.
    ``failure``: why a step has failed, or why the workflow was undone. ``is_interrupted``: somebody wants it to end.
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


#: Takes every event; called on the runner's threads, never under a lock, so it must be quick.
Observer = Callable[[WorkflowEvent], None]
