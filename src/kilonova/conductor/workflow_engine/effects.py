# SPDX-License-Identifier: Apache-2.0
"""Effects: the values that a step's hooks return, which tell the engine how to continue."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Generic, TypeVar

from kilonova.claims.building import NEW_SERVER
from kilonova.claims.placing import Chosen, Placing
from kilonova.conductor.workflow_engine.run import (
    F,
    Failure,
    HasHost,
    Run,
)
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.messaging.messages import AgentMessage
from kilonova.model.instance import PowerState, TaskState
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Batched(Generic[T]):
    """A database write that is done once for all workflows that commit together.

    ``write(tx, items)`` gets the ``item`` of each of these workflows.
    """

    write: Callable[[Transaction, Sequence[T]], None]
    item: T


#: A step's database write, in the transaction that journals the step. The run passed to it has the facts from before
#: the step.
Write = Batched[Any] | Callable[[Transaction, Run[Any]], object]


#: A :data:`Write` with its second argument, the run, already bound: the function is called with the transaction only.
BoundWrite = Batched[Any] | Callable[[Transaction], object]


@dataclass(frozen=True, slots=True)
class SendToAgent:
    """Effect: send a message to the agent of ``host`` and wait for the reply without blocking a thread.

    ``asked_after_s``: seconds without a reply after which the agent is asked for the state of the step; None: the
    default.
    ``facts``: the facts to keep in memory, not in the journal, while the workflow waits; None: unchanged.
    ``once``: task state → message. If the agent reported a listed task state and then lost the step, the message for
    that task state is sent instead of ``message``.
    """

    host: str
    message: AgentMessage
    asked_after_s: float | None = None
    facts: Any = None
    once: Mapping[TaskState, AgentMessage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Completed(Generic[F]):
    """Effect: the step, or its undo, is done. ``facts``: the new facts; None: unchanged.

    ``durable``: False for a step that had nothing to do. Its completion is not journalled before the next step starts,
    unless the next step has an undo (:meth:`Workflow.may_lag`).
    ``final``: skip the remaining steps and settle the server. ``memo``: data that this process caches for the workflow;
    None: unchanged.
    """

    facts: F | None = None
    write: Write | None = None
    durable: bool = True
    final: bool = False
    power_state: PowerState | None = None
    memo: Any = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Effect: the step cannot be done, so the workflow rolls back."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Again(Generic[F]):
    """Effect: run this step again, after queued work of other workflows. ``facts``: kept in memory, not journalled."""

    facts: F


@dataclass(frozen=True, slots=True)
class AwaitEvents:
    """Effect: run this step again when an event about the server arrives, or at ``until``, without blocking a thread.

    Events are the rows of ``db/network_events.py``, so none is lost if the process dies. ``until``: time of the
    database's clock; the step decides what happens then.
    """

    until: datetime


@dataclass(frozen=True, slots=True)
class Gone:
    """Effect: nothing is left to do, for instance because the server no longer exists. The workflow ends."""


@dataclass(frozen=True, slots=True)
class ClaimHost(Generic[F]):
    """Effect: claim a host for the server. One transaction commits the claim and completes the step.

    So a step that returns this effect can do nothing else.
    If several workflows of one API request start together and one of them gets no host, none gets a host.

    ``spec``: the server's request spec, ``group_uuid``: its server group. ``placing``: how the claim changes the server
    and which guards it checks.
    ``facts``: computes the new facts from the chosen host. It runs under the scheduling lock, so it must not block.
    ``overtaken``: effect if the server was changed concurrently. ``undone``: True if the step has nothing to undo after
    a refused claim.
    ``memo``: data that this process caches for the workflow.
    """

    spec: RequestSpec
    group_uuid: str | None
    facts: Callable[[Chosen], F]
    placing: Placing = NEW_SERVER
    overtaken: Failed | Gone = field(default_factory=Gone)
    undone: bool = True
    memo: Any = None


@dataclass(frozen=True, slots=True)
class ClaimForMembers:
    """Effect of a batch: claim a host for each of these members; if one gets none, no member gets a host.

    After the claim, each member is journalled at its next step, which runs when the batch starts the member; and
    ``then`` is applied to the batch.
    """

    members: tuple[tuple[Run[HasHost], ClaimHost[Any]], ...]
    then: Completed[Any] | Again[Any]


Effect = SendToAgent | Completed[Any] | ClaimHost[Any] | ClaimForMembers | Failed | Again[Any] | AwaitEvents | Gone


@dataclass(frozen=True, slots=True)
class Claimed:
    """Result of :class:`ClaimHost`: the claim and the workflow's next journal row are committed."""

    row: WorkflowRow
    memo: Any = None


@dataclass(frozen=True, slots=True)
class Ended:
    """Result of a rollback: the workflow ends, and its action has failed."""

    write: Write | None = None


@dataclass(frozen=True, slots=True)
class Restarted(Generic[F]):
    """Result of a rollback: the workflow starts again at its first step, with other facts."""

    facts: F
    write: Write | None = None


Unwound = Ended | Restarted[Any]
