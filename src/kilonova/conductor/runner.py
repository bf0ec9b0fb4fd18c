# SPDX-License-Identifier: Apache-2.0
"""Run workflows of any kind: do step after step, journal, park, walk back, try again what breaks.

Every write is fenced by owner and version: whoever finds its workflow changed by somebody else looks at the journal
again and goes on from there. What is done for one workflow is done by one thread at a time (``runs.py``).
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kilonova.conductor import turns
from kilonova.conductor.events import Observer, Phase
from kilonova.conductor.guest_reports import GuestReports
from kilonova.conductor.interrupts import interrupt
from kilonova.conductor.journal import Journal
from kilonova.conductor.late_guests import LateGuests
from kilonova.conductor.parking import RESPONSE_TIMEOUT_S, AboutStep, Parking
from kilonova.conductor.retries import MAX_TRIES, Retries, pause_s
from kilonova.conductor.runs import Runs
from kilonova.conductor.services import Services
from kilonova.conductor.task_progress import TaskProgress
from kilonova.conductor.turns import Turn
from kilonova.conductor.workflow import (
    TAKEN_OVER,
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
from kilonova.db import instances
from kilonova.db.transaction import Transaction
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import ConcurrentUpdate, NotFound, Unavailable, UnexpectedTaskState
from kilonova.lease import Lease
from kilonova.messaging.bus import ConductorBus
from kilonova.messaging.messages import StepReply, StepStatus, TaskReached
from kilonova.messaging.rabbit.complaints import Complaints

LOG = logging.getLogger(__name__)


def nowhere(_host: str) -> bool:
    """Tell that a host which is not on the bus is not anywhere else either."""
    return False


class Runner:
    """The workflows of one process. ``registry``: kind → workflow. Safe to use from any thread.

    ``observers``: are told of every turn, ``beginnings``: of every step that begins for the first time.
    ``find_agent``: looks, waiting for the database, whether a host can be reached after all that seemed not to be.
    """

    def __init__(
        self,
        services: Services,
        bus: ConductorBus,
        registry: Mapping[str, Workflow[Any]],
        lease: Lease,
        observers: Sequence[Observer] = (),
        *,
        beginnings: Sequence[Observer] = (),
        pause_s: Callable[[int], float] = pause_s,
        max_tries: int = MAX_TRIES,
        response_timeout_s: float = RESPONSE_TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
        find_agent: Callable[[str], bool] = nowhere,
    ) -> None:
        self.services = services
        self.registry = registry
        self._database = services.database
        self._owner = services.owner
        self._bus = bus
        self._lease = lease
        self._observers = tuple(observers)
        self._beginnings = tuple(beginnings)
        self._journal = Journal(self._database, self._owner, lambda kind: registry[kind].transition)
        self.guests = GuestReports(self._database, bus, lambda: self.may_act, find_agent)
        self._late_guests = LateGuests(self._database, self.guests, lambda: self.may_act)
        self._parking = Parking(bus, lambda: self.may_act, clock, response_timeout_s)
        self.task_progress = TaskProgress(
            self._database, lambda kind: registry[kind].transition, self._parking.is_parked
        )
        self._find_agent = find_agent
        self._complaints = Complaints(LOG)
        self._retries = Retries(pause_s, max_tries, clock)
        self._runs = Runs(registry, lambda uuid: self._retries.later(uuid, 1))

    @property
    def may_act(self) -> bool:
        """Whether nobody counts this process as dead, so that it may act for its hosts."""
        return self._database.is_sole_process or self._lease.is_held

    @property
    def known(self) -> frozenset[str]:
        """The workflows that this process has under way."""
        return self._runs.uuids

    @property
    def waits_for_agents(self) -> int:
        """How many workflows wait for the reply of an agent."""
        return len(self._parking)

    def awaited_facts(self, message: AboutStep) -> Any:
        """Return what the workflow remembers that waits for the step that a message is about; None when none does."""
        run = self._runs.get(message.step.workflow)
        return None if run is None or not self._parking.awaits(message) else run.facts

    # --- beginning and going on ---------------------------------------------------------------------------------------

    def begin(
        self, rows: Sequence[WorkflowRow], memos: Mapping[str, Any] | None = None, *, resumed: bool = False
    ) -> None:
        """Have workflows of this process go on from their present step, in the background.

        ``memos``: what is at hand for them. ``resumed``: their messages may have been sent already.
        """
        together: dict[tuple[str, str], list[Run[Any]]] = defaultdict(list)
        for row in rows:
            run = None if row.waiting or row.stuck else self._remember(row, (memos or {}).get(row.uuid))
            if run is None:
                continue
            if self._step(run).together is not None and not row.undoing and row.attempt == 0:
                together[row.kind, row.reservation_id].append(run)
            else:
                self._submit(run, partial(self._runs.post, row.uuid, partial(self._go_on, row, resumed=resumed)))
        for runs in together.values():
            self._submit(runs[0], partial(self._begin_together, runs))

    def _remember(self, row: WorkflowRow, memo: Any = None) -> Run[Any] | None:
        run = self._runs.remember(row, memo)
        newest = self._runs.get(row.uuid)
        if newest is not None:  # maybe newer than the row, which was read before somebody changed it
            self._parking.leave(row.uuid, newest.row.attempt)
        return run

    def _submit(self, run: Run[Any], work: Callable[[], None]) -> None:
        if self._workflow(run).urgent or run.row.interrupt is not None:
            self._bus.run_urgently(work)
        elif self._step(run).blocking(self.services) and not run.row.undoing:
            self._bus.run_blocking(work)
        else:
            self._bus.run_in_conductor(work)

    def _go_on(self, row: WorkflowRow, *, resumed: bool) -> None:
        run = self._runs.get(row.uuid)
        if run is not None and run.row.version == row.version:
            self._advance(run, resumed=resumed)
            self._cut_short(row.uuid)

    def _look_again_soon(self, uuid: str, *, resumed: bool = True) -> None:
        self._bus.run_urgently(partial(self._runs.post, uuid, partial(self._look_again, uuid, resumed=resumed)))

    def _look_again(self, uuid: str, *, resumed: bool = True) -> None:
        """Go on from what the journal says, since somebody else may have changed it."""
        row = self._journal.find(uuid)
        known = self._runs.get(uuid)
        if row is None or row.stuck:
            if known is not None:
                self._forget(known)
            if known is not None and row is None:
                self._late_guests.look_at(known.instance_uuid, known.facts.host)
            return
        run = self._remember(row)
        if run is not None and not row.waiting:
            self._advance(run, resumed=resumed)
            self._cut_short(uuid)

    def _begin_together(self, runs: Sequence[Run[Any]]) -> None:
        """Do the first step of all workflows of one request, all or none."""
        together = self._step(runs[0]).together
        assert together is not None
        try:
            effects = list(zip(runs, together(self.services, runs), strict=True))
            lost = [(run, effect) for run, effect in effects if isinstance(effect, Failed)]
            if len(lost) > 1:  # in one transaction, so that nobody sees only some of them fail
                self._commit(
                    [turns.failed(self.services, self._workflow(run), run, effect.failure) for run, effect in lost]
                )
        except Exception as error:  # noqa: BLE001 - whatever it was, it is kept, logged and tried again
            for run in runs:
                self._break(run, error)
            return
        for run, effect in effects if len(lost) <= 1 else [each for each in effects if each not in lost]:
            self._runs.post(run.row.uuid, partial(self._advance, run, effect))

    # --- one step after the other -------------------------------------------------------------------------------------

    def _advance(self, run: Run[Any] | None, effect: Effect | None = None, *, resumed: bool = False) -> None:
        """Run steps until the workflow parks, ends or breaks. ``effect``: of the present one, if it is known."""
        while run is not None:
            present = run
            try:
                if effect is None:
                    step = self._step(run)
                    if self._beginnings and not (resumed or run.row.undoing):
                        self._tell_of_beginning(run)
                    effect = (step.undo if run.row.undoing else step.do)(self.services, run)
                run = self._apply(run, effect, resumed=resumed)
                if run is not None and not run.row.undoing and self._step(run).blocking(self.services):
                    self._submit(run, partial(self._runs.post, run.row.uuid, partial(self._advance, run)))
                    return
            except HostIsBackError as error:
                self._host_is_back(present, error)
                return
            except Exception as error:  # noqa: BLE001 - whatever it was, it is kept, logged and tried again
                self._break(present, error)
                return
            effect, resumed = None, False

    def _apply(self, run: Run[Any], effect: Effect, *, resumed: bool = False) -> Run[Any] | None:
        """Do what an effect says; return what the workflow goes on with, None when it parks or is over."""
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
                after = self._remember(effect.row, effect.memo)
                known = run if after is None else replace(run, facts=after.facts)
                self._tell(Turn(known, effect.row, Phase.STEP_DONE))
                return after
            case Failed():
                return self._turn_back(run, effect.failure)
            case Again():
                again = replace(run, facts=effect.facts)
                if self._runs.replace(again):
                    self._submit(run, partial(self._runs.post, run.row.uuid, partial(self._advance, again)))
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
                LOG.info("Workflow %s (%s) was changed by somebody else", turn.run.row.uuid, turn.run.row.kind)
                self._look_again_soon(turn.run.row.uuid)
            return None
        except (NotFound, UnexpectedTaskState) as error:
            for turn in made:
                self._was_taken_over(turn, error)
            return None
        run = None
        for turn in made:
            run = self._take(turn, turn.after)
        self._begin_released(released)
        return run

    def _was_taken_over(self, turn: Turn, error: NotFound | UnexpectedTaskState) -> None:
        """Somebody else has changed the server: undo what was done, or end where nothing is left to undo."""
        run = turn.run
        LOG.info("Workflow %s (%s) ends early: %s", run.row.uuid, run.row.kind, error.message)
        is_over = turn.after is None and turn.phase is not Phase.DONE
        if isinstance(error, NotFound) or is_over or not self._workflow(run).can_walk_back(run.row.step):
            self._end_quietly(run)
        else:
            self._advance(run, Failed(Failure(error.message)))

    def _take(self, turn: Turn, after: WorkflowRow | None) -> Run[Any] | None:
        self._tell(turn)
        if after is None or after.stuck:
            self._forget(turn.run)
            if Interrupt.EVACUATE in {turn.run.interrupt, turn.run.row.kind}:
                # A host that was passed over may have reported its guests before the server was recorded elsewhere.
                self._late_guests.look_at(turn.run.instance_uuid, turn.run.facts.host)
            return None
        return self._runs.remember(after, turn.run.memo)

    def _end_quietly(self, run: Run[Any]) -> None:
        """Remove a workflow that has nothing left to do, its action failed, and let those begin that waited for it."""
        released = self._journal.end(run.row)
        self._forget(run)
        self._late_guests.look_at(run.instance_uuid, run.facts.host)
        self._begin_released(released)

    def _begin_released(self, released: Sequence[WorkflowRow]) -> None:
        """Begin what waited for others, as far as it is ours; other processes notice by themselves."""
        if released:
            self.begin([row for row in released if row.owner == self._owner])

    # --- messages -----------------------------------------------------------------------------------------------------

    def _send(self, run: Run[Any], effect: SendToAgent, *, resumed: bool) -> Run[Any] | None:
        """Send a message and park; a host that cannot be reached answers with an error at once.

        Where another process has the host's agent, it gets the workflow.
        """
        if effect.facts is not None:
            run = replace(run, facts=effect.facts)
        send = partial(self._parking.send, run, effect, lambda: self._runs.replace(run), ask=resumed)
        refused = send()
        if refused is not None and self._find_agent(effect.host):
            refused = send()
        if refused is None or self._hand_over(run, effect.host):
            return None
        effect_of_refusal = self._meaning(run, refused)
        if isinstance(effect_of_refusal, Failed) and not resumed:  # the host has never heard of the step
            effect_of_refusal = Failed(replace(effect_of_refusal.failure, undone=True))
        return self._apply(run, effect_of_refusal)

    def _is_left(self, run: Run[Any], host: str) -> bool:
        """Tell whether something is being undone at a host that is taken for dead, and that its server leaves.

        An agent that is alive all the same is asked to undo it, so that no guest goes on there; but what it cannot do,
        and what a host without one would have to, keeps nobody waiting.
        """
        if run.interrupt is not Interrupt.EVACUATE or not run.row.undoing:
            return False
        with self._database.read() as connection:
            return instances.place_of(connection, run.instance_uuid)[0] == host

    def _meaning(self, run: Run[Any], reply: StepReply) -> Effect:
        step = self._step(run)
        try:
            return (step.on_undone if run.row.undoing else step.on_reply)(self.services, run, reply)
        except UndoFailedError as error:
            if not self._is_left(run, reply.host):
                raise
            LOG.warning("Instance %s leaves host %s as it is: %s", run.instance_uuid, reply.host, error)
            return Completed()

    def _hand_over(self, run: Run[Any], host: str) -> bool:
        """Give a workflow to the process that has a host's agent; also True when it is no longer ours to give."""
        try:
            given = self._journal.hand_over(run.row, host)
        except TAKEN_OVER:
            self._look_again_soon(run.row.uuid)
            return True
        if given:
            self._forget(run)
        return given

    def take_reply(self, reply: StepReply) -> None:
        """Take the reply of an agent."""
        if not reply.step.workflow:
            self.guests.take_removed(reply)
        elif self._parking.take(reply):
            self._runs.post(reply.step.workflow, partial(self._resume, reply))
        else:
            LOG.debug("Late reply dropped: %r", reply)
            self._late_guests.look_at_reply(reply)

    def _resume(self, reply: StepReply) -> None:
        run = self._runs.get(reply.step.workflow)
        if run is None or run.row.attempt != reply.step.attempt:
            self._late_guests.look_at_reply(reply)
            return
        try:
            effect = self._meaning(run, reply)
        except Exception as error:  # noqa: BLE001 - whatever it was, it is kept, logged and tried again
            self._break(run, error)
        else:
            self._advance(run, effect)

    def take_progress(self, message: TaskReached) -> None:
        """Have a server show how far the agent is with its step."""
        run = self._parking.take_progress(message)
        if run is not None:
            self.task_progress.note(run, message.task)

    def take_status(self, status: StepStatus) -> None:
        """Take the answer to the question how far a step is."""
        task = None
        if self._parking.is_forgotten(status):
            with self._database.read() as connection:
                task = instances.task_of(connection, status.instance_uuid)
        reply = self._parking.take_status(status, task)
        if reply is not None:
            self.take_reply(reply)

    def ask_overdue(self) -> None:
        """Ask the agents whose replies are overdue how far they are; one that never answers counts as unreachable."""
        for reply in self._parking.ask_overdue():
            if self._find_agent(reply.host):
                self._parking.hurry([reply.host])
            else:
                self.take_reply(reply)

    def ask_hosts(self, hosts: Collection[str]) -> None:
        """Ask the agents of hosts how far they are with what was sent there: they may have come back without it."""
        self._parking.hurry(hosts)
        self.ask_overdue()

    # --- interrupts ---------------------------------------------------------------------------------------------------

    def interrupt(self, tx: Transaction, instance_uuid: str, why: Interrupt) -> tuple[WorkflowRow, ...]:
        """Have what is under way for an instance end, or end sooner; return the rows as they are now.

        To be called in the transaction that stores what wants it so; hand the rows to :meth:`interrupted` afterwards.
        Raises: Conflict for what waits for an operator, which gives way to a delete only.
        """
        return interrupt(tx, self.registry, self._owner, instance_uuid, why)

    def interrupted(self, rows: Sequence[WorkflowRow]) -> None:
        """Go on with workflows of this process that were interrupted; other processes notice by themselves."""
        for row in rows:
            if row.owner != self._owner:
                continue
            known = self._runs.get(row.uuid)
            run = self._remember(row)
            if run is None:
                continue
            if self._parking.is_parked(run):
                self._bus.run_urgently(partial(self._cut_short, row.uuid))
            else:  # whoever interrupts it sends nothing: what a new attempt has to say was not said yet
                self._look_again_soon(row.uuid, resumed=known is None or known.row.attempt >= row.attempt)

    def _cut_short(self, uuid: str) -> None:
        """Tell the agent to end a step sooner, where that has to be said."""
        run = self._runs.get(uuid)
        if run is None or run.interrupt is None or run.row.undoing or not self._parking.is_parked(run):
            return
        cut = self._step(run).interrupts.get(run.interrupt)
        effect = None if cut is None else cut(self.services, run)
        if isinstance(effect, SendToAgent):
            try:
                self._bus.cast(effect.host, effect.message)
            except Unavailable as error:
                LOG.warning("Workflow %s (%s) is not cut short: %s", uuid, run.row.kind, error.message)

    def begin_waiting(self, instance_uuids: Collection[str]) -> None:
        """Let workflows begin whose instances have nothing else under way."""
        for uuid in instance_uuids:
            self._begin_released(self._journal.release_waiting(uuid))

    # --- what breaks --------------------------------------------------------------------------------------------------

    def _break(self, run: Run[Any], error: Exception) -> None:
        """Log what nobody foresaw, and have the step tried again later, or not any more."""
        if isinstance(error, Unavailable):
            self._tell(Turn(run, run.row, Phase.BROKE, message=error.message))
            # All of them when the database or the lease is gone, again and again: one line of a kind a minute.
            text = f"Tried again later: {run.row.kind} {run.instance_uuid}: {error.message}"
            self._complaints.complain(error.message, text)
            self._retries.later(run.row.uuid, run.row.tries + 1)
            return
        LOG.error("A step broke: %s %s", run.row.kind, run.instance_uuid, exc_info=error)
        if self._retries.are_over(run):
            self._give_up(run, error)
            return
        self._tell(Turn(run, run.row, Phase.BROKE, message=str(error)))
        self._retries.later(run.row.uuid, run.row.tries + 1)
        try:
            row = self._journal.count_try(run.row)
        except ConcurrentUpdate:
            pass  # somebody else has changed it, and it is looked at again
        except Exception as second:  # noqa: BLE001 - the database is away as well: tried again, uncounted
            LOG.warning("A try could not be counted: %s", second)
        else:
            self._remember(row)

    def _give_up(self, run: Run[Any], error: Exception) -> None:
        """Walk back from a step that breaks again and again, or leave it to an operator where that cannot be."""
        failure = self._retries.failure(run, error)
        if not run.row.undoing and self._workflow(run).can_walk_back(run.row.step):
            try:
                turned_back = self._turn_back(run, failure)
            except Unavailable as away:
                self._break(run, away)
                return
            except Exception:
                LOG.exception("A step can be neither done nor undone: %s %s", run.row.kind, run.instance_uuid)
            else:
                self._advance(turned_back)
                return
        if run.interrupted is Interrupt.DELETE or not run.instance_uuid:
            LOG.error("Workflow %s (%s) was given up: %s", run.row.uuid, run.row.kind, failure.message)
            self._end_quietly(run)
        else:
            with self._database.read() as connection:
                server = instances.find(connection, run.instance_uuid)
            self._commit([turns.stuck(run, failure, server)])

    def _host_is_back(self, run: Run[Any], error: HostIsBackError) -> None:
        """Have the present step sent once more; a bit later when the host's agent is our own."""
        if self._journal.has_agent_of(error.host):
            self._break(run, error)
        else:
            self._look_again(run.row.uuid)

    def retry_broken(self) -> None:
        """Go on with workflows whose step broke, and whose time has come, at the step that the journal has."""
        for uuid in self._retries.due():
            run = self._runs.get(uuid)
            if run is not None:
                self._submit(run, partial(self._runs.post, uuid, partial(self._look_again, uuid)))

    # --- small parts --------------------------------------------------------------------------------------------------

    def look_at_late_guests(self) -> None:
        """Look at the guests of replies that came while this process might not act."""
        self._late_guests.look_at_waiting()

    def forget_everything(self) -> None:
        """Forget what this process remembers, since others may have gone on with it."""
        self._runs.clear()
        self._parking.clear()
        self._retries.clear()

    def _forget(self, run: Run[Any]) -> None:
        if self._runs.forget(run):
            self._parking.leave(run.row.uuid)
            self._retries.forget(run.row.uuid)

    def _workflow(self, run: Run[Any]) -> Workflow[Any]:
        return self.registry[run.row.kind]

    def _step(self, run: Run[Any]) -> Step[Any]:
        return self.registry[run.row.kind].step(run.row.step)

    def _tell_of_beginning(self, run: Run[Any]) -> None:
        event = turns.begins(run)
        for observer in self._beginnings:
            observer(event)

    def _tell(self, turn: Turn) -> None:
        event = turns.told(turn, self._workflow(turn.run))
        for observer in self._observers:
            observer(event)
