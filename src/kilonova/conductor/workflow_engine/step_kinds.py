# SPDX-License-Identifier: Apache-2.0
"""The usual steps: order a host and wait, or only write; and the hooks that these are made of.

Every constructor says what undoes its step: :func:`order` calls off what is on the way, :func:`one_way` leaves nothing
to undo, and everything else is a :class:`~kilonova.conductor.workflow_engine.workflow.Step` with its own ``undo``.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, TypeVar

from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import (
    CALL_OFF,
    CALLED_OFF,
    NOTHING,
    Completed,
    Do,
    Effect,
    Interrupt,
    OnReply,
    Run,
    SendToAgent,
    Step,
    Write,
    complete_or_fail,
)
from kilonova.messaging.messages import AgentMessage, StepId
from kilonova.model.instance import TaskState

F = TypeVar("F")
#: A message that says only which step it is, and of which server; or what makes another one, None if there is nothing
#: to order.
Message = Callable[[StepId, str], AgentMessage] | Callable[[Run[Any]], AgentMessage | None]
_NO_INTERRUPTS: Mapping[Interrupt, Do[Any]] = {}


def order(
    name: str,
    do: Do[F],
    *,
    event: str,
    on_reply: OnReply[F] = complete_or_fail,
    shows: TaskState | None = None,
) -> Step[F]:
    """Return a step that orders the server's host to do something, and leaves nothing where it fails.

    Interrupted, it is called off: the order may still be on the way.
    """
    return Step(name, do, CALL_OFF, on_reply, CALLED_OFF, shows, event)


def one_way(
    name: str,
    do: Do[F],
    *,
    on_reply: OnReply[F] = complete_or_fail,
    shows: TaskState | None = None,
    event: str | None = None,
    interrupts: Mapping[Interrupt, Do[F]] = _NO_INTERRUPTS,
    blocking: bool = False,
) -> Step[F]:
    """Return a step of which nothing has to be undone: it leaves nothing, or there is no way back behind it."""
    return Step(name, do, NOTHING, on_reply, shows=shows, event=event, interrupts=interrupts, blocking=blocking)


def sends(message: Message, to: Callable[[Any], str | None] = attrgetter("host")) -> Do[Any]:
    """Return what sends a message to a host, which its facts name, and waits; without a host there is nothing to do."""

    def send(_services: Services, run: Run[Any]) -> Effect:
        host, made = to(run.facts), _made(message, run)
        return Completed(durable=False) if host is None or made is None else SendToAgent(host, made)

    return send


def writes(write: Write) -> Do[Any]:
    """Return what completes a step with a write."""
    return lambda _services, _run: Completed(write=write)


def _made(message: Any, run: Run[Any]) -> AgentMessage | None:
    made: AgentMessage | None = message(run.step_id, run.instance_uuid) if isinstance(message, type) else message(run)
    return made
