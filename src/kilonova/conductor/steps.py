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
from kilonova.errors import ConcurrentUpdate, NotFound, UnexpectedTaskState
from kilonova.messaging.messages import StepId, StepReply

if TYPE_CHECKING:
    from kilonova.conductor.service import Conductor

#: Somebody else (a delete, another process) took the instance over: the workflow has nothing left to do.
TAKEN_OVER = (ConcurrentUpdate, NotFound, UnexpectedTaskState)
#: Error of the reply that a workflow gives itself when its host has no agent.
UNREACHABLE = "The host of the instance cannot be reached."


class HostIsBackError(Exception):
    """A host that could not be reached has a live process again: the step has to be sent after all."""


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


def step_id(flow: Workflow) -> StepId:
    """Return what names the present start of a workflow's step in messages."""
    return StepId(flow.uuid, flow.step, flow.attempt)


def is_unreachable(reply: StepReply) -> bool:
    """Tell whether the host never heard of the step."""
    return reply.error == UNREACHABLE
