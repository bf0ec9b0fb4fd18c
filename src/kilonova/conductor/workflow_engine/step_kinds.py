# SPDX-License-Identifier: Apache-2.0
"""Constructors for the usual kinds of steps, and for hooks that send a message or write to the database.

Each constructor chooses the undo of its step: :func:`order` calls off an order that is on its way, and :func:`one_way`
has nothing to undo. Any other step is a :class:`~kilonova.conductor.workflow_engine.workflow.Step` with its own
``undo``.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, TypeVar

from kilonova.conductor.workflow_engine.effects import Completed, Effect, SendToAgent, Write
from kilonova.conductor.workflow_engine.run import HasHost, Interrupt, Run
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import (
    CALL_OFF,
    CALLED_OFF,
    NOTHING,
    Do,
    OnReply,
    Step,
    complete_or_fail,
)
from kilonova.messaging.messages import AgentMessage, StepId
from kilonova.model.instance import TaskState

F = TypeVar("F", bound=HasHost)
#: Source of a step's message: a message class whose only arguments are step and server, or a function of the run. The
#: function returns None if there is no message to send.
Message = Callable[[StepId, str], AgentMessage] | Callable[[Run[Any]], AgentMessage | None]
_NO_INTERRUPTS: Mapping[Interrupt, Do[Any]] = {}


def order(
    name: str,
    do: Do[F],
    *,
    event: str,
    on_reply: OnReply[F] = complete_or_fail,
    shows: TaskState | None = None,
    repeats: bool = True,
) -> Step[F]:
    """Return a step that orders the server's host to do something. A failed order leaves nothing to undo.

    If the workflow is interrupted, the order is called off, since it may still be on its way to the agent.
    ``repeats``: False for an order that is not idempotent.
    """
    return Step(name, do, CALL_OFF, on_reply, CALLED_OFF, shows, event, repeats=repeats)


def one_way(
    name: str,
    do: Do[F],
    *,
    on_reply: OnReply[F] = complete_or_fail,
    shows: TaskState | None = None,
    event: str | None = None,
    interrupts: Mapping[Interrupt, Do[F]] = _NO_INTERRUPTS,
    blocking: bool = False,
    repeats: bool = False,
) -> Step[F]:
    """Return a step without undo: its failure leaves nothing to undo, or the workflow can no longer be rolled back."""
    return Step(
        name,
        do,
        NOTHING,
        on_reply,
        shows=shows,
        event=event,
        interrupts=interrupts,
        blocking=blocking,
        repeats=repeats,
    )


def sends(message: Message, to: Callable[[Any], str | None] = attrgetter("host")) -> Do[Any]:
    """Return a hook that sends a message to a host and waits for the reply. ``to``: facts → host.

    If there is no host or no message, the step completes at once.
    """

    def send(_services: Services, run: Run[HasHost]) -> Effect:
        host, made = to(run.facts), _made(message, run)
        return Completed(durable=False) if host is None or made is None else SendToAgent(host, made)

    return send


def writes(write: Write) -> Do[Any]:
    """Return a hook that completes its step and writes to the database in the same transaction."""
    return lambda _services, _run: Completed(write=write)


def _made(message: Any, run: Run[HasHost]) -> AgentMessage | None:
    made: AgentMessage | None = message(run.step_id, run.instance_uuid) if isinstance(message, type) else message(run)
    return made
