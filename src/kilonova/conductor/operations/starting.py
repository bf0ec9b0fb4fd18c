# SPDX-License-Identifier: Apache-2.0
"""How every operation begins: stored in one transaction with its action and its first task, then it runs by itself."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from kilonova.conductor.workflow_engine.runner import Runner
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import Interrupt, Workflow
from kilonova.conductor.workflows.moves import FIRST_STATUS as MOVES
from kilonova.conductor.workflows.moves import MoveFacts
from kilonova.db import instance_actions, instances, unwanted_images, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.instance_actions import EndedEvent, NewAction
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import ConcurrentUpdate, Conflict, UnexpectedTaskState
from kilonova.identifiers import new_uuid
from kilonova.model.instance import Instance
from kilonova.model.requester import Requester


class Starter:
    """Begins workflows of servers. Each family of operations has it, and adds what is its own."""

    def __init__(self, services: Services, runner: Runner) -> None:
        self.services = services
        self.runner = runner

    def start(
        self,
        workflow: Workflow[Any],
        facts: Any,
        instance: Instance,
        who: Requester,
        write: Callable[[Transaction], object] = lambda _tx: None,
        *,
        check: Callable[[Transaction], object] = lambda _tx: None,
        why: Interrupt = Interrupt.OTHER_ACTION,
    ) -> None:
        """Store a workflow with its action and first task state, and have it begin.

        What it may overtake walks back first, and is told ``why``. ``write(tx)``: what belongs into the same
        transaction; ``check(tx)``: what is looked at in it before anything is changed.
        Raises: NotFound; UnexpectedTaskState, also when the server has another host than ``instance`` says; whatever
        ``check`` and ``write`` raise.
        """
        self.go_on(self._store(workflow, facts, instance, who, write, check, why))

    def start_with_image(
        self,
        workflow: Workflow[Any],
        facts: Any,
        instance: Instance,
        who: Requester,
        register: Callable[[], object],
        write: Callable[[Transaction], object] = lambda _tx: None,
        *,
        check: Callable[[Transaction], object] = lambda _tx: None,
    ) -> None:
        """Do what :meth:`start` does, for a workflow that brings the data of the image ``facts.image_id``.

        ``register`` makes that image before the workflow begins, and after the journal knows of it: a process that dies
        in between leaves a workflow that finds out. Raises: as :meth:`start`; what ``register`` raises, and then
        nothing is under way; ConcurrentUpdate, when the server was deleted meanwhile.
        """
        rows = self._store(workflow, facts, instance, who, write, check)
        with self._beginning_whatever_happens(rows):
            try:
                register()
            except Exception:
                self._withdraw(rows[-1], workflow, facts.image_id)
                raise
            if not self._is_present(rows[-1]):
                self.services.database.write(lambda tx: unwanted_images.note(tx, [facts.image_id]))
                raise ConcurrentUpdate(f"Server {instance.uuid} was changed meanwhile.")

    @contextmanager
    def _beginning_whatever_happens(self, rows: tuple[WorkflowRow, ...]) -> Iterator[None]:
        """Have workflows begin that are stored, also when it is not known what has become of them since.

        One that was withdrawn, or was ended by somebody else, finds that it is gone.
        """
        try:
            with self.runner.promise(rows[-1].uuid):
                try:
                    yield
                finally:
                    self.go_on(rows)
        finally:
            if rows[-1].waiting:
                self.runner.begin_prepared(rows[-1].uuid)

    def _withdraw(self, row: WorkflowRow, workflow: Workflow[Any], image_id: str) -> None:
        """End a workflow that has not begun, and whose image may or may not have been made.

        What it waited for may have ended meanwhile.
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
        workflow: Workflow[Any],
        facts: Any,
        instance: Instance,
        who: Requester,
        write: Callable[[Transaction], object],
        check: Callable[[Transaction], object] = lambda _tx: None,
        why: Interrupt = Interrupt.OTHER_ACTION,
    ) -> tuple[WorkflowRow, ...]:
        """Store a workflow with what belongs to it; return it after those that it interrupts."""
        transition = workflow.transition
        flow = self.row(workflow, instance, who)

        def begin(tx: Transaction) -> tuple[WorkflowRow, ...]:
            check(tx)
            instances.change(
                tx,
                instance.uuid,
                expected_states=transition.states,
                expected_tasks=transition.tasks,
                **({"task_state": transition.shown[0]} if transition.shown else {}),
            )
            _require_still_there(tx, instance)
            others = self.runner.interrupt(tx, instance.uuid, why)
            if why is Interrupt.OTHER_ACTION and not isinstance(facts, MoveFacts):
                _require_no_move(others)
            row = workflow.first_row(replace(flow, waiting=bool(others)), facts)
            workflows.insert(tx, [row], self.services.owner)
            instance_actions.begin(tx, [action_of(workflow, instance, who)])
            write(tx)
            return (*others, row)

        return self.services.database.write(begin)

    def row(self, workflow: Workflow[Any], instance: Instance, who: Requester) -> WorkflowRow:
        """Return a workflow as it is stored, but for its first step."""
        ids = new_uuid(), workflow.kind, instance.uuid, "", who.request_id
        return WorkflowRow(*ids, "", owner=self.services.owner)

    def go_on(self, rows: tuple[WorkflowRow, ...]) -> None:
        """Have the last of these begin, and have the others, which it interrupts, walk back."""
        if rows:
            self.runner.begin([row for row in rows[-1:] if not row.waiting])
            self.runner.interrupted(rows[:-1])


def _require_still_there(tx: Transaction, instance: Instance) -> None:
    """Raise UnexpectedTaskState when a server has another host by now than the one that would be asked."""
    if instances.place_of(tx.connection, instance.uuid)[0] != instance.host:
        raise UnexpectedTaskState(f"Instance {instance.uuid} was changed meanwhile.")


def _require_no_move(others: Iterable[WorkflowRow]) -> None:
    """Raise Conflict while a server is being moved although it shows no task: its host may change yet.

    Its state was reset meanwhile.
    """
    for row in others:
        if row.kind in MOVES:
            raise Conflict(
                f"Instance {row.instance_uuid} cannot be changed yet: its {row.kind}, which was under way when its"
                " state was reset, has not ended. Try again later."
            )


def action_of(workflow: Workflow[Any], instance: Instance, who: Requester) -> NewAction:
    """Return the action of a workflow as the API tells of it."""
    return NewAction(instance.uuid, workflow.action or workflow.kind, who.request_id, who.user_id, who.project_id)


def record_at_once(tx: Transaction, instance: Instance, who: Requester, action: str, event: str) -> None:
    """Record an action that was done in this transaction, with its only event."""
    instance_actions.begin(tx, [NewAction(instance.uuid, action, who.request_id, who.user_id, who.project_id)])
    instance_actions.add_events(tx, [EndedEvent(instance.uuid, who.request_id, event, tx.now)])
