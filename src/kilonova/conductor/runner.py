# SPDX-License-Identifier: Apache-2.0
"""Run workflows of any kind: journal, send, park, resume, walk back, retry, interrupt.

What is to be done for one workflow is queued and done by one thread at a time. Every write is fenced by owner and
version: whoever finds its workflow changed by somebody else looks at the journal again and goes on from there.
"""

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from kilonova.conductor import turns
from kilonova.conductor.events import Observer, Phase, WorkflowEvent
from kilonova.conductor.guests import GuestsElsewhere
from kilonova.conductor.journal import Journal
from kilonova.conductor.lease import Lease
from kilonova.conductor.services import Services
from kilonova.conductor.turns import Turn
from kilonova.conductor.workflow import (
    TAKEN_OVER,
    UNREACHABLE,
    Again,
    Completed,
    Effect,
    Failed,
    Failure,
    Gone,
    HostIsBackError,
    Interrupt,
    Journalled,
    Run,
    SendToAgent,
    Step,
    UndoFailedError,
    Workflow,
)
from kilonova.db import host_agents, instance_actions, instances, workflows
from kilonova.db.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import ConcurrentUpdate, Conflict, NotFound, Unavailable, UnexpectedTaskState
from kilonova.messaging.bus import Bus
from kilonova.messaging.messages import AskStep, StepReply, StepState, StepStatus
from kilonova.model.instance import VmState

LOG = logging.getLogger(__name__)
#: How often a step may break before it counts as failed or stuck.
MAX_TRIES = 10
#: How often an agent may leave a question about its step unanswered.
_MAX_QUESTIONS = 5
_LONGEST_PAUSE_S = 60.0


def pause_s(tries: int) -> float:
    """Return how many seconds a step that broke so often waits: 1, 2, 4 … 60."""
    return min(_LONGEST_PAUSE_S, 2.0 ** max(0, tries - 1))


@dataclass(slots=True)
class _Awaited:
    """A message that waits for its reply. ``due``: when the agent is asked how far it is."""

    run: Run[Any]
    effect: SendToAgent
    due: float
    questions: int = 0


class Runner:
    """The workflows of one process. ``registry``: kind → workflow. Safe to use from any thread."""

    def __init__(
        self,
        services: Services,
        bus: Bus,
        registry: Mapping[str, Workflow[Any]],
        lease: Lease,
        observers: Sequence[Observer] = (),
        *,
        pause_s: Callable[[int], float] = pause_s,
        max_tries: int = MAX_TRIES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.services = services
        self.registry = registry
        self._database = services.database
        self._owner = services.owner
        self._bus = bus
        self._lease = lease
        self._observers = tuple(observers)
        self._pause_s = pause_s
        self._max_tries = max_tries
        self._clock = clock
        self._journal = Journal(self._database, self._owner, lambda kind: registry[kind].transition)
        self._guests = GuestsElsewhere(self._database, bus, lambda: self.may_act)
        self._lock = threading.Lock()
        self._runs: dict[str, Run[Any]] = {}
        #: Workflow → what is to be done for it; whoever adds the first works it off.
        self._queues: dict[str, deque[Callable[[], None]]] = {}
        #: Workflow → the message that waits. The first reply takes it, so that copies find nothing.
        self._awaited: dict[str, _Awaited] = {}
        #: Workflow → when its step, which broke, is tried again.
        self._broken: dict[str, float] = {}

    @property
    def may_act(self) -> bool:
        """Whether nobody counts this process as dead, so that it may act for its hosts."""
        return self._database.is_sqlite or self._lease.is_held

    @property
    def known(self) -> frozenset[str]:
        """The workflows that this process runs."""
        with self._lock:
            return frozenset(self._runs)

    def facts_of(self, uuid: str) -> Any:
        """Return what a workflow of this process remembers; None for another one's."""
        with self._lock:
            run = self._runs.get(uuid)
        return None if run is None else run.facts

    # --- beginning and going on ---------------------------------------------------------------------------------------

    def begin(
        self, rows: Sequence[WorkflowRow], memos: Mapping[str, Any] | None = None, *, resumed: bool = False
    ) -> None:
        """Have workflows of this process go on from their present step, in the background.

        ``memos``: what is at hand for them. ``resumed``: their messages may have been sent already.
        """
        memos = memos or {}
        together: dict[tuple[str, str], list[Run[Any]]] = defaultdict(list)
        for row in rows:
            run = None if row.waiting or row.stuck else self._remember(row, memos.get(row.uuid))
            if run is None:
                continue
            step = self._step(run)
            if step.together is not None and not row.undoing and row.attempt == 0:
                together[row.kind, row.reservation_id].append(run)
            else:
                self._submit(run, lambda row=row: self._post(row.uuid, lambda: self._go_on(row, resumed=resumed)))  # type: ignore[misc]
        for runs in together.values():
            self._submit(runs[0], lambda runs=runs: self._begin_together(runs))  # type: ignore[misc]

    def _remember(self, row: WorkflowRow, memo: Any = None) -> Run[Any] | None:
        workflow = self.registry.get(row.kind)
        if workflow is None:
            LOG.error("Workflow %s is of a kind that this release does not know: %s; it stays", row.uuid, row.kind)
            return None
        with self._lock:
            known = self._runs.get(row.uuid)
            if memo is None and known is not None:
                memo = known.memo
            run = workflow.run(row, memo)
            if known is None or known.row.version <= row.version:
                self._runs[row.uuid] = run
            waits = self._awaited.get(row.uuid)
            if waits is not None and waits.run.row.attempt != row.attempt:
                del self._awaited[row.uuid]
            return run

    def _submit(self, run: Run[Any], work: Callable[[], None]) -> None:
        workflow = self.registry[run.row.kind]
        if workflow.urgent or run.row.interrupt is not None:
            self._bus.run_urgently(work)
        elif self._step(run).blocking(self.services) and not run.row.undoing:
            self._bus.run_aside(work)
        else:
            self._bus.run_in_conductor(work)

    def _post(self, uuid: str, action: Callable[[], None]) -> None:
        """Do something for a workflow, on this thread unless another one is at it."""
        with self._lock:
            queue = self._queues.get(uuid)
            if queue is not None:
                queue.append(action)
                return
            queue = self._queues[uuid] = deque([action])
        while True:
            try:
                queue[0]()
            except Exception:
                LOG.exception("Workflow %s could not go on", uuid)
            with self._lock:
                queue.popleft()
                if not queue:
                    del self._queues[uuid]
                    return

    def _go_on(self, row: WorkflowRow, *, resumed: bool) -> None:
        with self._lock:
            run = self._runs.get(row.uuid)
        if run is not None and run.row.version == row.version:
            self._advance(run, resumed=resumed)
            self._cut_short(run)

    def _look_again(self, uuid: str) -> None:
        """Go on from what the journal says, since somebody else has changed it."""
        with self._database.read() as connection:
            row = workflows.get(connection, uuid, self._owner)
        if row is None:
            with self._lock:
                known = self._runs.get(uuid)
            self._forget(uuid)
            if known is not None:
                self._guests.look_at(known.instance_uuid, known.facts.host)
            return
        if row.stuck:
            self._forget(uuid)
            return
        run = self._remember(row)
        if run is not None and not row.waiting:
            self._advance(run, resumed=True)
            self._cut_short(run)

    def _begin_together(self, runs: Sequence[Run[Any]]) -> None:
        """Do the first step of all workflows of one request, all or none."""
        together = self._step(runs[0]).together
        assert together is not None
        try:
            effects = together(self.services, runs)
        except Exception as error:  # noqa: BLE001 - whatever it was, it is kept, logged and tried again
            for run in runs:
                self._break(run, error)
            return
        lost = [(run, effect.failure) for run, effect in zip(runs, effects, strict=True) if isinstance(effect, Failed)]
        if len(lost) > 1:
            failed = [turns.failed(self.services, self._workflow(run), run, failure) for run, failure in lost]
            if self._commit(failed) is None:
                return
        for run, effect in zip(runs, effects, strict=True):
            if not (isinstance(effect, Failed) and len(lost) > 1):
                self._post(run.row.uuid, lambda run=run, effect=effect: self._advance(run, effect))  # type: ignore[misc]

    # --- one step after the other -------------------------------------------------------------------------------------

    def _advance(self, run: Run[Any] | None, effect: Effect | None = None, *, resumed: bool = False) -> None:
        """Run steps until the workflow parks, ends or breaks. ``effect``: of the present one, if it is known."""
        while run is not None:
            present = run
            try:
                if effect is None:
                    step = self._step(run)
                    effect = (step.undo if run.row.undoing else step.do)(self.services, run)
                run = self._apply(run, effect, resumed=resumed)
            except HostIsBackError as error:
                self._send_again(present, error.host)
                return
            except Exception as error:  # noqa: BLE001 - whatever it was, it is kept, logged and tried again
                self._break(present, error)
                return
            effect, resumed = None, False

    def _apply(self, run: Run[Any], effect: Effect, *, resumed: bool) -> Run[Any] | None:
        workflow = self._workflow(run)
        match effect:
            case SendToAgent():
                return self._send(run, effect, resumed=resumed)
            case Completed():
                act = turns.undone if run.row.undoing else turns.completed
                turn = act(self.services, workflow, run, effect)
                if turn.after is not None and not effect.durable and not turn.writes:
                    return self._take(turn, replace(turn.after, version=run.row.version))
                return self._commit([turn])
            case Journalled():
                self._tell(Turn(run, effect.row, Phase.STEP_DONE))
                return self._remember(effect.row, effect.memo)
            case Failed():
                return self._turn_back(run, effect.failure)
            case Again():
                with self._lock:
                    self._runs[run.row.uuid] = again = replace(run, facts=effect.facts)
                self._submit(run, lambda: self._post(run.row.uuid, lambda: self._advance(again)))
                return None
            case Gone():
                self._end_quietly(run)
                return None

    def _turn_back(self, run: Run[Any], failure: Failure) -> Run[Any] | None:
        workflow = self._workflow(run)
        if run.row.undoing or not workflow.can_walk_back(run.row.step):
            raise UndoFailedError(failure.message)
        return self._commit([turns.failed(self.services, workflow, run, failure)])

    def _commit(self, made: Sequence[Turn]) -> Run[Any] | None:
        """Make turns durable, and return what the last of them goes on with."""
        try:
            released = self._journal.commit(made)
        except ConcurrentUpdate:
            for turn in made:
                uuid = turn.run.row.uuid
                LOG.info("Workflow %s (%s) was changed by somebody else", uuid, turn.run.row.kind)
                self._bus.run_in_conductor(lambda uuid=uuid: self._post(uuid, lambda: self._look_again(uuid)))  # type: ignore[misc]
            return None
        except (NotFound, UnexpectedTaskState) as error:
            for turn in made:
                LOG.info("Workflow %s (%s) ends early: %s", turn.run.row.uuid, turn.run.row.kind, error)
                self._end_quietly(turn.run)
            return None
        run = None
        for turn in made:
            run = self._take(turn, turn.after)
        if released:
            self.begin([row for row in released if row.owner == self._owner])
        return run

    def _take(self, turn: Turn, after: WorkflowRow | None) -> Run[Any] | None:
        self._tell(turn)
        if after is None:
            self._forget(turn.run.row.uuid)
            return None
        run = Run(after, turn.run.facts, turn.run.memo)
        if after.facts is not turn.run.row.facts:
            run = self._workflow(turn.run).run(after, turn.run.memo)
        with self._lock:
            self._runs[after.uuid] = run
        return run

    def _end_quietly(self, run: Run[Any]) -> None:
        """Forget a workflow that has nothing left to do, and let those begin that waited for it."""

        def end(tx: Transaction) -> tuple[WorkflowRow, ...]:
            workflows.finish_present(tx, [run.row], self._owner)
            return workflows.release_waiting(tx, run.instance_uuid, self._owner)

        released = self._database.write(end)
        self._forget(run.row.uuid)
        self._guests.look_at(run.instance_uuid, run.facts.host)
        self.begin([row for row in released if row.owner == self._owner])

    # --- messages -----------------------------------------------------------------------------------------------------

    def _send(self, run: Run[Any], effect: SendToAgent, *, resumed: bool) -> Run[Any] | None:
        """Send a message and park; a host that cannot be reached answers with an error at once.

        Where another process has the host's agent, it gets the workflow. ``resumed``: the agent is asked first.
        """
        uuid = run.row.uuid
        with self._lock:
            known = self._runs.get(uuid)
            if known is None or known.row.version != run.row.version:
                return None
            if not self.may_act:
                raise Unavailable("Other processes may have taken over the work of this one.")
            if effect.facts is not None:
                self._runs[uuid] = run = replace(run, facts=effect.facts)
            self._awaited[uuid] = _Awaited(run, effect, self._clock() + effect.asked_after_s)
            message = AskStep(run.step_id, run.instance_uuid) if resumed else effect.message
            try:
                self._bus.cast(effect.host, message)
            except Unavailable as error:
                del self._awaited[uuid]
                refused = _unreachable(run, effect.host, error)
            else:
                return None
        if self._hand_over(run, effect.host):
            return None
        return self._apply(run, self._meaning(run, refused), resumed=False)

    def _meaning(self, run: Run[Any], reply: StepReply) -> Effect:
        step = self._step(run)
        return (step.on_undone if run.row.undoing else step.on_reply)(self.services, run, reply)

    def _hand_over(self, run: Run[Any], host: str) -> bool:
        """Give a workflow to the live process in which the agent of a host runs, if there is one (ADR 6)."""
        if self._database.is_sqlite:
            return False

        def hand_over(tx: Transaction) -> bool:
            heir = host_agents.process_of(tx.connection, host)
            if heir is None or heir == self._owner or not host_agents.is_alive(tx, heir):
                return False
            workflows.hand_over(tx, run.row, self._owner, heir)
            return True

        try:
            given = self._database.write(hand_over)
        except TAKEN_OVER:
            given = True
        if given:
            self._forget(run.row.uuid)
        return given

    def _send_again(self, run: Run[Any], host: str) -> None:
        """Have the present step sent once more, since its host is back; a bit later when its agent is our own."""
        with self._database.read() as connection:
            process = host_agents.process_of(connection, host)
        if process == self._owner:
            self._break(run, Unavailable(f"The agent of host {host} is just starting."))
        else:
            self._look_again(run.row.uuid)

    def take_reply(self, reply: StepReply) -> None:
        """Take the reply of an agent."""
        uuid = reply.step.workflow
        with self._lock:
            waits = self._awaited.get(uuid)
            is_expected = (
                waits is not None and waits.run.row.attempt == reply.step.attempt and waits.effect.host == reply.host
            )
            if is_expected:
                del self._awaited[uuid]
        if not is_expected:
            LOG.debug("Late reply dropped: %r", reply)
            self._guests.destroy_stray(reply)
            return
        self._post(uuid, lambda: self._resume(reply))

    def _resume(self, reply: StepReply) -> None:
        with self._lock:
            run = self._runs.get(reply.step.workflow)
        if run is None or run.row.attempt != reply.step.attempt:
            self._guests.destroy_stray(reply)
            return
        try:
            effect = self._meaning(run, reply)
        except Exception as error:  # noqa: BLE001 - whatever it was, it is kept, logged and tried again
            self._break(run, error)
            return
        self._advance(run, effect)

    def take_status(self, status: StepStatus) -> None:
        """Take the answer to the question how far a step is."""
        if status.state is StepState.DONE and status.reply is not None:
            self.take_reply(status.reply)
            return
        lost: StepReply | None = None
        with self._lock:
            waits = self._awaited.get(status.step.workflow)
            if waits is None or waits.run.row.attempt != status.step.attempt:
                return
            waits.due = self._clock() + waits.effect.asked_after_s
            waits.questions = 0
            if status.state is StepState.UNKNOWN and self.may_act:
                try:
                    self._bus.cast(waits.effect.host, waits.effect.message)
                except Unavailable as error:
                    lost = _unreachable(waits.run, waits.effect.host, error)
        if lost is not None:
            self.take_reply(lost)

    def ask_overdue(self) -> None:
        """Ask the agents whose replies are overdue how far they are; one that never answers counts as unreachable."""
        lost: list[StepReply] = []
        now = self._clock()
        with self._lock:
            for waits in [waits for waits in self._awaited.values() if waits.due <= now]:
                run, host = waits.run, waits.effect.host
                waits.questions += 1
                waits.due = now + waits.effect.asked_after_s
                try:
                    self._ask(host, run, waits.questions)
                except Unavailable as error:
                    lost.append(_unreachable(run, host, error))
        for reply in lost:
            self.take_reply(reply)

    def _ask(self, host: str, run: Run[Any], questions: int) -> None:
        if questions > _MAX_QUESTIONS:
            raise Unavailable(f"The agent of host {host} answers no questions.")
        self._bus.cast(host, AskStep(run.step_id, run.instance_uuid))

    # --- interrupts ---------------------------------------------------------------------------------------------------

    def interrupt(self, tx: Transaction, instance_uuid: str, why: Interrupt) -> tuple[WorkflowRow, ...]:
        """Have what is under way for an instance end, or end sooner; return the rows as they are now.

        To be called in the transaction that stores what wants it so; hand the rows to :meth:`interrupted` afterwards.
        Raises: Conflict for what waits for an operator, which gives way to a delete only.
        """
        changed: list[WorkflowRow] = []
        for row in workflows.of_instance(tx.connection, instance_uuid):
            if row.waiting or row.stuck:
                self._supersede(tx, row, why)
                continue
            after = self._interrupted(row, why)
            workflows.change(tx, after, heir=row.owner != self._owner)
            changed.append(after)
        return tuple(changed)

    def _supersede(self, tx: Transaction, row: WorkflowRow, why: Interrupt) -> None:
        """Drop what does nothing now, and never will when its server is deleted."""
        if why is Interrupt.DELETE:
            workflows.drop(tx, [row.uuid])
            instance_actions.fail(tx, [(row.instance_uuid, row.request_id)])
        elif row.stuck:
            raise Conflict(
                f"Instance {row.instance_uuid} cannot be changed: its {row.kind} is stuck and waits for an"
                " administrator. It can be deleted."
            )

    def _interrupted(self, row: WorkflowRow, why: Interrupt) -> WorkflowRow:
        """Return a workflow that somebody wants to end."""
        workflow = self.registry[row.kind]
        step = workflow.steps[workflow.index(row.step)]
        marked = replace(row, interrupt=why.value, version=row.version + 1)
        gives_way = why in workflow.overtaken_by and workflow.can_walk_back(row.step)
        if row.undoing or why in step.interrupts or not gives_way:
            return marked  # whoever interrupts it waits until it has ended
        failure = asdict(Failure(f"Interrupted by {why.value}."))
        return replace(marked, undoing=True, attempt=row.attempt + 1, tries=0, failure=failure)

    def interrupted(self, rows: Sequence[WorkflowRow]) -> None:
        """Go on with workflows of this process that were interrupted; other processes notice by themselves."""
        for row in rows:
            if row.owner != self._owner:
                continue
            with self._lock:
                known = self._runs.get(row.uuid)
                parked = row.uuid in self._awaited
            run = self._remember(row)
            if run is None:
                continue
            if known is not None and parked and known.row.attempt == row.attempt:
                with self._lock:
                    if (waits := self._awaited.get(row.uuid)) is not None:
                        waits.run = run
                self._bus.run_urgently(lambda run=run: self._cut_short(run))  # type: ignore[misc]
            else:
                uuid = row.uuid
                self._bus.run_urgently(lambda uuid=uuid: self._post(uuid, lambda: self._look_again(uuid)))  # type: ignore[misc]

    def _cut_short(self, run: Run[Any]) -> None:
        """Tell the agent to end a step sooner, where that has to be said."""
        why = run.interrupted
        if why is None or run.row.undoing:
            return
        cut = self._step(run).interrupts.get(why)
        if cut is None:
            return
        with self._lock:
            if run.row.uuid not in self._awaited:
                return
        effect = cut(self.services, run)
        if isinstance(effect, SendToAgent):
            try:
                self._bus.cast(effect.host, effect.message)
            except Unavailable as error:
                LOG.warning("Workflow %s (%s) is not cut short: %s", run.row.uuid, run.row.kind, error.message)

    # --- what breaks --------------------------------------------------------------------------------------------------

    def _break(self, run: Run[Any], error: Exception) -> None:
        """Log what nobody foresaw, and have the step tried again later, or not any more."""
        uuid, tries = run.row.uuid, run.row.tries + 1
        if isinstance(error, Unavailable):
            LOG.warning("Tried again later: %s %s: %s", run.row.kind, run.instance_uuid, error.message)
        else:
            LOG.error("A step broke: %s %s", run.row.kind, run.instance_uuid, exc_info=error)
            try:
                run = self._count_try(run, tries, error)
            except Exception as second:  # noqa: BLE001 - the database is away as well: tried again, uncounted
                LOG.warning("A try could not be counted: %s", second)
        with self._lock:
            if uuid in self._runs:
                self._broken[uuid] = self._clock() + self._pause_s(tries)

    def _count_try(self, run: Run[Any], tries: int, error: Exception) -> Run[Any]:
        workflow = self._workflow(run)
        message = error.args[0] if isinstance(error, UndoFailedError) else "An unexpected error stopped the operation."
        failure = Failure(str(message), f"{type(error).__name__}: {error}", run.facts.host)
        if tries < self._max_tries:
            row = replace(run.row, tries=tries, attempt=run.row.attempt + 1, version=run.row.version + 1)
            self._database.write(lambda tx: workflows.move(tx, row, self._owner))
            return self._remember(row) or run
        if not run.row.undoing and workflow.can_walk_back(run.row.step):
            self._advance(run, Failed(failure))
        else:
            self._give_up(run, failure)
        return run

    def _give_up(self, run: Run[Any], failure: Failure) -> None:
        """Leave a workflow to an operator, its server in error; to a delete if one waits, which takes care of all."""
        with self._database.read() as connection:
            server = instances.find(connection, run.instance_uuid)
        kept = replace(run.failure if run.row.undoing else failure, stuck_because=failure.message)
        if server is not None:
            kept = replace(kept, vm_state=server.vm_state, task_state=server.task_state)
        row = replace(run.row, stuck=True, tries=0, failure=asdict(kept), version=run.row.version + 1)

        def write(tx: Transaction) -> None:
            instances.record_fault(tx, run.instance_uuid, failure.as_fault())
            instances.change(tx, run.instance_uuid, vm_state=VmState.ERROR, task_state=None)

        if run.interrupted is Interrupt.DELETE or not run.instance_uuid:
            LOG.error("Workflow %s (%s) was given up: %s", run.row.uuid, run.row.kind, failure.message)
            self._end_quietly(run)
            return
        ended = Turn(run, row, Phase.STUCK, (write,), failed=True, message=failure.message, host=failure.host)
        self._commit([ended])
        self._forget(run.row.uuid)

    def retry_broken(self) -> None:
        """Go on with workflows whose step broke, and whose time has come, at the step that the journal has."""
        now = self._clock()
        with self._lock:
            due = sorted(uuid for uuid, when in self._broken.items() if when <= now)
            for uuid in due:
                del self._broken[uuid]
        for uuid in due:
            with self._lock:
                run = self._runs.get(uuid)
            if run is not None:
                self._submit(run, lambda uuid=uuid: self._post(uuid, lambda: self._look_again(uuid)))  # type: ignore[misc]

    # --- small parts --------------------------------------------------------------------------------------------------

    def look_at_late_guests(self) -> None:
        """Look at the guests of replies that came while this process might not act."""
        self._guests.look_at_late_ones()

    def begin_waiting(self, instance_uuids: Collection[str]) -> None:
        """Let workflows begin whose instances have nothing else under way."""
        for instance_uuid in instance_uuids:
            released = self._database.write(partial(self._release_waiting, instance_uuid))
            self.begin([row for row in released if row.owner == self._owner])

    def _release_waiting(self, instance_uuid: str, tx: Transaction) -> tuple[WorkflowRow, ...]:
        return workflows.release_waiting(tx, instance_uuid, self._owner)

    def forget_everything(self) -> None:
        """Forget what this process remembers, since others may have gone on with it."""
        with self._lock:
            for remembered in (self._runs, self._awaited, self._broken):
                remembered.clear()

    def _forget(self, uuid: str) -> None:
        with self._lock:
            self._runs.pop(uuid, None)
            self._awaited.pop(uuid, None)
            self._broken.pop(uuid, None)

    def _workflow(self, run: Run[Any]) -> Workflow[Any]:
        return self.registry[run.row.kind]

    def _step(self, run: Run[Any]) -> Step[Any]:
        workflow = self.registry[run.row.kind]
        return workflow.steps[workflow.index(run.row.step)]

    def _tell(self, turn: Turn) -> None:
        row = turn.run.row
        seconds = max(0.0, (turns.now() - row.since).total_seconds()) if row.since is not None else 0.0
        word = self.registry[row.kind].done
        facts = row.kind, turn.step or row.step, row.instance_uuid, row.request_id, turn.host
        event = WorkflowEvent(turn.phase, *facts, word, turn.message, seconds)
        for observer in self._observers:
            observer(event)


def _unreachable(run: Run[Any], host: str, error: Unavailable) -> StepReply:
    """Return the reply that a workflow gives itself when its host has no agent."""
    return StepReply(run.step_id, host, run.instance_uuid, UNREACHABLE, error.message)
