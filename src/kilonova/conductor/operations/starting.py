# SPDX-License-Identifier: Apache-2.0
"""Start of operations: one transaction stores the workflow, its instance action and the first task state."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from kilonova.conductor.workflow_engine.run import HasHost, Interrupt
from kilonova.conductor.workflow_engine.runner import Runner
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.db import instance_actions, instance_networks, instances, unwanted_images, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.instance_actions import EndedEvent, NewAction
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import ConcurrentUpdate, Conflict
from kilonova.identifiers import new_uuid
from kilonova.model.instance import Instance
from kilonova.model.requester import Requester

F = TypeVar("F", bound=HasHost)
#: Hook that is called in the transaction that stores a workflow, with the server as read in that transaction.
WithServer = Callable[[Transaction, Instance], object]


def nothing(_tx: Transaction, _server: Instance) -> None:
    """Do nothing: the default hook."""


class Starter:
    """Starter of workflows of servers, used by all families of operations.

    The first facts of a workflow are computed from the server as read in the transaction that stores the workflow: a
    record that the request has read before may be stale. So operations take the uuid of a server, not its record.
    """

    def __init__(self, services: Services, runner: Runner) -> None:
        self.services = services
        self.runner = runner

    def start(
        self,
        workflow: Workflow[F],
        facts_of: Callable[[Instance], F],
        uuid: str,
        who: Requester,
        write: WithServer = nothing,
        *,
        only_if: WithServer = nothing,
        before: WithServer = nothing,
        why: Interrupt = Interrupt.OTHER_ACTION,
    ) -> None:
        """Store a workflow with its instance action and first task state, and start the workflow.

        The server's other workflows are interrupted and roll back before the new workflow starts.
        ``facts_of``: computes the first facts of the workflow from the server. ``only_if``: hook that raises if the
        server has changed so that the request is no longer valid. ``before``: hook for writes before the other
        workflows are interrupted. ``write``: hook for writes at the end of the transaction. ``why``: kind of the
        interrupt for the other workflows.
        Raises: NotFound; UnexpectedTaskState; Conflict if the workflow needs the server's host and there is none;
        errors of ``only_if``, ``before`` and ``write``.
        """
        self.go_on(self._store(workflow, facts_of, uuid, who, write, only_if, before, why))

    def start_with_image(
        self,
        workflow: Workflow[F],
        facts_of: Callable[[Instance], F],
        uuid: str,
        image_id: str,
        who: Requester,
        register: Callable[[], object],
        *,
        before: WithServer = nothing,
    ) -> None:
        """Do the same as :meth:`start`, for a workflow that uploads data to the image ``image_id``.

        ``register``: creates that image in Glance. It is called after the workflow is journalled and before the
        workflow starts. If the process dies before the image exists, the workflow finds no image and fails.
        Raises: as :meth:`start`; errors of ``register``, after which the workflow is withdrawn; ConcurrentUpdate if the
        server was deleted meanwhile.
        """
        rows = self._store(workflow, facts_of, uuid, who, before=before)
        with self._beginning_also_after_errors(rows):
            try:
                register()
            except Exception:
                self._withdraw(rows[-1], workflow, image_id)
                raise
            if not self._is_present(rows[-1]):
                self.services.database.write(lambda tx: unwanted_images.note(tx, [image_id]))
                raise ConcurrentUpdate(f"Server {uuid} was changed meanwhile.")

    @contextmanager
    def _beginning_also_after_errors(self, rows: tuple[WorkflowRow, ...]) -> Iterator[None]:
        """Start stored workflows at the end of the block, even after an error.

        After an error it may be unknown whether the workflow was withdrawn. Starting a withdrawn or ended workflow does
        nothing, because its row no longer exists.
        """
        try:
            with self.runner.promise(rows[-1].uuid):
                try:
                    yield
                finally:
                    self.go_on(rows)
        finally:
            if rows[-1].waiting:
                self.runner.begin_promised(rows[-1].uuid)

    def _withdraw(self, row: WorkflowRow, workflow: Workflow[Any], image_id: str) -> None:
        """End a workflow that has not started, and record its image as unwanted, because the image may exist.

        The row of the workflow is read again: it may have changed, because the workflows that it waited for have ended.
        """

        def withdraw(tx: Transaction) -> None:
            unwanted_images.note(tx, [image_id])
            present = workflows.of_instance(tx.connection, row.instance_uuid)
            unbegun = [each for each in present if each.uuid == row.uuid and each.interrupt is None]
            if workflows.finish_present(tx, unbegun, self.services.owner):
                instance_actions.fail(tx, [(row.instance_uuid, row.request_id)])
                instances.change(
                    tx, row.instance_uuid, expected_tasks={None, *workflow.transition.shown}, task_state=None
                )

        self.services.database.write(withdraw)

    def _is_present(self, row: WorkflowRow) -> bool:
        with self.services.database.read() as connection:
            return any(each.uuid == row.uuid for each in workflows.of_instance(connection, row.instance_uuid))

    def _store(
        self,
        workflow: Workflow[F],
        facts_of: Callable[[Instance], F],
        uuid: str,
        who: Requester,
        write: WithServer = nothing,
        only_if: WithServer = nothing,
        before: WithServer = nothing,
        why: Interrupt = Interrupt.OTHER_ACTION,
    ) -> tuple[WorkflowRow, ...]:
        """Store a workflow and call the hooks; return the interrupted workflows, followed by the new workflow."""
        transition = workflow.transition
        flow = self.row(workflow, uuid, who)

        def begin(tx: Transaction) -> tuple[WorkflowRow, ...]:
            server = instances.get_bare(tx.connection, uuid)
            only_if(tx, server)
            instances.change(
                tx,
                uuid,
                expected_states=transition.states,
                expected_tasks=transition.tasks,
                **({"task_state": transition.shown[0]} if transition.shown else {}),
            )
            before(tx, server)
            others = self.runner.interrupt(tx, uuid, why)
            if why is Interrupt.OTHER_ACTION and not workflow.is_move:
                self._require_no_move(others)
            facts = facts_of(server)
            if facts.host == "":
                raise Conflict(f"Instance {uuid} is not ready: it has no host.")
            facts = self.with_networks(tx, uuid, facts, others)
            row = workflow.first_row(replace(flow, waiting=bool(others)), facts)
            workflows.insert(tx, [row], self.services.owner)
            instance_actions.begin(tx, [action_of(workflow, uuid, who)])
            write(tx, server)
            return (*others, row)

        return self.services.database.write(begin)

    def with_networks(self, tx: Transaction, uuid: str, facts: F, others: Collection[WorkflowRow]) -> F:
        """Return the first facts of a workflow with ``networks`` set if the server may have interfaces.

        Facts without this field are unchanged. ``others``: the workflows that the new one waits for; one of them may
        attach the server's first interface.
        """
        if self.services.network_client is None or not hasattr(facts, "networks"):
            return facts
        known: Any = facts
        changed: F = replace(known, networks=bool(others) or instance_networks.has_row(tx.connection, uuid))
        return changed

    def _require_no_move(self, others: Iterable[WorkflowRow]) -> None:
        """Raise Conflict if one of the interrupted workflows is a move, which may still change the server's host.

        A move can be among them if the server's state was reset during the move: the new state allows the new workflow.
        """
        for row in others:
            workflow = self.runner.registry.get(row.kind)
            if workflow is not None and workflow.is_move:
                raise Conflict(
                    f"Instance {row.instance_uuid} cannot be changed yet: its {row.kind}, which was running when its"
                    " state was reset, has not ended. Try again later."
                )

    def row(self, workflow: Workflow[Any], uuid: str, who: Requester) -> WorkflowRow:
        """Return the row of a new workflow of a server. The caller sets the first step."""
        return WorkflowRow(
            uuid=new_uuid(),
            kind=workflow.kind,
            instance_uuid=uuid,
            reservation_id="",
            request_id=who.request_id,
            step="",
            owner=self.services.owner,
        )

    def go_on(self, rows: tuple[WorkflowRow, ...]) -> None:
        """Start the last workflow of ``rows``, unless it waits; continue the others, which have been interrupted."""
        if rows:
            self.runner.begin([row for row in rows[-1:] if not row.waiting])
            self.runner.interrupted(rows[:-1])


def action_of(workflow: Workflow[Any], uuid: str, who: Requester) -> NewAction:
    """Return the instance action of a workflow, as the API shows it."""
    return NewAction(uuid, workflow.action or workflow.kind, who.request_id, who.user_id, who.project_id)


def record_at_once(tx: Transaction, instance: Instance, who: Requester, action: str, event: str) -> None:
    """Record an instance action that begins and ends in this transaction, with its only event."""
    instance_actions.begin(tx, [NewAction(instance.uuid, action, who.request_id, who.user_id, who.project_id)])
    instance_actions.add_events(
        tx, [EndedEvent(instance_uuid=instance.uuid, request_id=who.request_id, event=event, started_at=tx.now)]
    )
