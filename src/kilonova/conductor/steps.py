# SPDX-License-Identifier: Apache-2.0
"""What a workflow is made of.

A step's ``do`` either finishes at once and returns the workflow at its next step, or sends a message to an agent and
returns None: the workflow is parked without a thread until ``reply`` is called. ``undo`` and ``undone`` are the same
for the way back. Whatever changes a state journals the next step in the same transaction.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kilonova.db.workflows import Workflow
from kilonova.messaging.messages import StepReply

if TYPE_CHECKING:
    from kilonova.conductor.service import Conductor

Do = Callable[["Conductor", Workflow], Workflow | None]
OnReply = Callable[["Conductor", Workflow, StepReply], Workflow | None]


@dataclass(frozen=True, slots=True)
class Step:
    """One step. ``reply`` is None for a step that waits for nobody; ``undo`` is None where there is nothing to undo."""

    name: str
    do: Do
    reply: OnReply | None = None
    undo: Do | None = None
    undone: OnReply | None = None


#: step name → step
Steps = Mapping[str, Step]


def steps(*items: Step) -> Steps:
    """Return the steps of a workflow by name, in order."""
    return {item.name: item for item in items}
