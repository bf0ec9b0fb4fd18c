# SPDX-License-Identifier: Apache-2.0
"""How a workflow goes on: step after step, until it parks, ends or breaks; journalled, walked back, tried again.

Every write is fenced by owner and version: whoever finds its workflow changed by somebody else looks at the journal
again and goes on from there. When it goes on, :mod:`kilonova.conductor.workflow_engine.runner` says.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kilonova.conductor.hosts.suspected_strays import SuspectedStrays
from kilonova.conductor.workflow_engine import step_outcome
from kilonova.conductor.workflow_engine.events import Observer, Phase
from kilonova.conductor.workflow_engine.host_claims import HostClaims, Result
from kilonova.conductor.workflow_engine.journal import Journal
from kilonova.conductor.workflow_engine.pending_replies import PendingReplies
from kilonova.conductor.workflow_engine.reply_meaning import meaning_of
from kilonova.conductor.workflow_engine.retries import Retries
from kilonova.conductor.workflow_engine.runs import Runs
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_outcome import StepOutcome
from kilonova.conductor.workflow_engine.workflow import (
    TAKEN_OVER,
    Again,
    BoundWrite,
    Claimed,
    ClaimForMembers,
    ClaimHost,
    Completed,
    Effect,
    Failed,
    Failure,
    Gone,
    HostIsBackError,
    Interrupt,
    Run,
    SendToAgent,
    Step,
    UndoFailedError,
    Workflow,
)
from kilonova.db import instances
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import ConcurrentUpdate, NotFound, Unavailable, UnexpectedTaskState
from kilonova.logs.rate_limited_log import RateLimitedLog
from kilonova.messaging.bus import ConductorBus
from kilonova.messaging.messages import StepReply

LOG = logging.getLogger(__name__)


class Stepper:
    """The workflows of one process. What is done for one of them is done by one thread at a time (``runs.py``).

    ``observers``: are told of every turn, ``beginnings``: of every step that begins for the first time.
    ``find_agent``: looks, waiting for the database, whether a host can be reached after all that seemed not to be.
    ``begin``: begins workflows that waited for others, as far as they are ours.
    """

    def __init__(
        self,
        services: Services,
        bus: ConductorBus,
        registry: Mapping[str, Workflow[Any]],
        observers: Sequence[Observer],
        journal: Journal,
        runs: Runs,
        pending_replies: PendingReplies,
        retries: Retries,
        suspected_strays: SuspectedStrays,
        *,
        beginnings: Sequence[Observer],
        find_agent: Callable[[str], bool],
        begin: Callable[[Sequence[WorkflowRow]], None],
    ) -> None:
        self._services = services
        self._bus = bus
        self._registry = registry
        self._observers = tuple(observers)
        self._beginnings = tuple(beginnings)
        self._journal = journal
        self._runs = runs
        self._pending_replies = pending_replies
        self._retries = retries
        self._suspected_strays = suspected_strays
        self._find_agent = find_agent
        self._begin = begin
        self._claims = HostClaims(services.claimer, registry)
        self._complaints = RateLimitedLog(LOG)

    # --- what is under way --------------------------------------------------------------------------------------------

    def remember(self, row: WorkflowRow, memo: Any = None) -> Run[Any] | None:
        """Note where a workflow is, unless something newer is known; None for what another release has stored."""
        run = self._runs.remember(row, memo)
        newest = self._runs.get(row.uuid)
        if newest is not None:  # maybe newer than the row, which was read before somebody changed it
            self._pending_replies.leave(row.uuid, newest.row.attempt)
        return run

    def forget(self, run: Run[Any]) -> None:
        """Forget a workflow that is over, or another process's."""
        if self._runs.forget(run):
            self._pending_replies.leave(run.row.uuid)
            self._retries.forget(run.row.uuid)

    def submit(self, run: Run[Any], work: Callable[[], None]) -> None:
        """Have a thread work for a workflow, one of those that its present step is for."""
        if self._workflow(run).urgent or run.row.interrupt is not None:
            self._bus.run_urgently(work)
        elif self._step(run).blocking and not run.row.undoing:
            self._bus.run_blocking(work)
        else:
            self._bus.run_in_conductor(work)

    def look_again_soon(self, uuid: str, *, resumed: bool = True) -> None:
        """Do that in the background, before ordinary work."""
        self._bus.run_urgently(partial(self._runs.post, uuid, partial(self.look_again, uuid, resumed=resumed)))

    def look_again(self, uuid: str, *, resumed: bool = True) -> None:
        """Go on from what the journal says, since somebody else may have changed it."""
        row = self._journal.find(uuid)
        known = self._runs.get(uuid)
        if row is None or row.stuck:
            if known is not None:
                self.forget(known)
            if known is not None and row is None:
                self._suspected_strays.look_at(known.instance_uuid, known.facts.host)
            return
        run = self.remember(row)
        if run is not None and not row.waiting:
            self.advance(run, resumed=resumed)
            self.cut_short(uuid)

    def cut_short(self, uuid: str) -> None:
        """Tell the agent to end a step sooner, where that has to be said."""
        run = self._runs.get(uuid)
        if run is None or run.interrupt is None or run.row.undoing or not self._pending_replies.is_pending(run):
            return
        cut = self._step(run).interrupts.get(run.interrupt)
        effect = None if cut is None else cut(self._services, run)
        if isinstance(effect, SendToAgent):
            try:
                self._bus.cast(effect.host, effect.message)
            except Unavailable as error:
                LOG.warning("Workflow %s (%s) is not cut short: %s", uuid, run.row.kind, error.message)

    # --- one step after the other -------------------------------------------------------------------------------------

    def begin_together(self, runs: Sequence[Run[Any]]) -> None:
        """Do the first step of all workflows of one request: those that ask for hosts get them all, or none."""
        try:
            effects = [(run, self._step(run).act(self._services, run)) for run in runs]
        except Exception as error:  # noqa: BLE001 - whatever it was, it is kept, logged and tried again
            self._break_all(runs, error)
            return
        go_on = partial(self._claim_together, effects)
        if any(self._claims.may_block(effect) for _, effect in effects):
            self._bus.run_blocking(go_on)
        else:
            go_on()

    def _claim_together(self, effects: Sequence[tuple[Run[Any], Effect]]) -> None:
        """Claim hosts for the workflows of one request that ask for one, and have all of them go on."""
        asked = [(run, effect) for run, effect in effects if isinstance(effect, ClaimHost)]
        known: list[tuple[Run[Any], Effect | Result]] = [
            (run, effect) for run, effect in effects if not isinstance(effect, ClaimHost)
        ]
        try:
            known += zip((run for run, _ in asked), self._claims.claim(asked), strict=True)
            lost = [(run, effect.failure) for run, effect in known if isinstance(effect, Failed)]
            if len(lost) > 1:  # in one transaction, so that nobody sees only some of them fail
                self._commit([step_outcome.failed(self._services, self._workflow(run), run, why) for run, why in lost])
                known = [(run, effect) for run, effect in known if not isinstance(effect, Failed)]
        except Exception as error:  # noqa: BLE001 - as above
            self._break_all([run for run, _ in effects], error)
            return
        for run, effect in known:
            self._runs.post(run.row.uuid, partial(self.advance, run, effect))

    def resume(self, run: Run[Any], reply: StepReply) -> None:
        """Go on with what the reply to the present step means."""
        try:
            effect = meaning_of(self._services, self._step(run), run, reply)
        except Exception as error:  # noqa: BLE001 - whatever it was, it is kept, logged and tried again
            self._break(run, error)
        else:
            self.advance(run, effect)

    def advance(self, run: Run[Any] | None, effect: Effect | Result | None = None, *, resumed: bool = False) -> None:
        """Run steps until the workflow parks, ends or breaks. ``effect``: of the present one, if it is known."""
        while run is not None:
            present = run
            try:
                if effect is None:
                    step = self._step(run)
                    if self._beginnings and not (resumed or run.row.undoing):
                        self._tell_of_beginning(run)
                    effect = step.act(self._services, run)
                    if self._claims.may_block(effect):
                        again = partial(self.advance, run, effect)
                        self._bus.run_blocking(partial(self._runs.post, run.row.uuid, again))
                        return
                run = self._apply(run, effect, resumed=resumed)
                if run is not None and not run.row.undoing and self._step(run).blocking:
                    self.submit(run, partial(self._runs.post, run.row.uuid, partial(self.advance, run)))
                    return
            except HostIsBackError as error:
                self._host_is_back(present, error)
                return
            except Exception as error:  # noqa: BLE001 - whatever it was, it is kept, logged and tried again
                self._break(present, error)
                return
            effect, resumed = None, False

    def _apply(self, run: Run[Any], effect: Effect | Result, *, resumed: bool = False) -> Run[Any] | None:
        """Do what an effect says; return what the workflow goes on with, None when it parks or is over."""
        workflow = self._workflow(run)
        match effect:
            case SendToAgent():
                return self._send(run, effect, resumed=resumed)
            case Completed():
                act = step_outcome.undone if run.row.undoing else step_outcome.completed
                outcome = act(self._services, workflow, run, effect)
                if (
                    not effect.durable
                    and not outcome.writes
                    and outcome.after is not None
                    and workflow.may_lag(outcome.after)
                ):
                    return self._take(outcome, replace(outcome.after, version=run.row.version))
                return self._commit([outcome])
            case ClaimHost():
                return self._apply(run, *self._claims.claim([(run, effect)]))
            case ClaimForMembers():
                return self._apply(run, self._claims.claim_for_members(effect))
            case Claimed():
                after = self.remember(effect.row, effect.memo)
                known = run if after is None else replace(run, facts=after.facts)
                self._tell(StepOutcome(known, effect.row, Phase.STEP_DONE))
                return after
            case Failed():
                return self._turn_back(run, effect.failure)
            case Again():
                again = replace(run, facts=effect.facts)
                if self._runs.replace(again):
                    self.submit(run, partial(self._runs.post, run.row.uuid, partial(self.advance, again)))
            case Gone():
                self._end_quietly(run)
        return None

    def _turn_back(self, run: Run[Any], failure: Failure) -> Run[Any] | None:
        workflow = self._workflow(run)
        if run.row.undoing or not workflow.can_walk_back(run.row.step):
            raise UndoFailedError(failure.message)
        return self._commit([step_outcome.failed(self._services, workflow, run, failure)])

    def _commit(self, made: Sequence[StepOutcome]) -> Run[Any] | None:
        """Make turns durable, and return what the last of them goes on with."""
        try:
            released = self._journal.commit(made)
        except ConcurrentUpdate as error:
            self._was_refused([outcome.run for outcome in made], error)
            return None
        except (NotFound, UnexpectedTaskState) as error:
            for outcome in made:
                self._was_taken_over(outcome, error)
            return None
        run = None
        for outcome in made:
            run = self._take(outcome, outcome.after)
        self._begin(released)
        return run

    def _was_refused(self, runs: Sequence[Run[Any]], error: ConcurrentUpdate) -> None:
        """Look at the journal again, if somebody else has changed one of the workflows; else what they write broke."""
        present = {run.row.uuid: self._journal.find(run.row.uuid) for run in runs}
        versions = {uuid: None if row is None else row.version for uuid, row in present.items()}
        unchanged = all(versions[run.row.uuid] == run.row.version for run in runs)
        for run in runs:
            if unchanged:
                self._break(run, error)
            else:
                LOG.info("Workflow %s (%s) was changed by somebody else", run.row.uuid, run.row.kind)
                self.look_again_soon(run.row.uuid)

    def _was_taken_over(self, outcome: StepOutcome, error: NotFound | UnexpectedTaskState) -> None:
        """Somebody else has changed the server: undo what was done, or end where nothing is left to undo."""
        run = outcome.run
        LOG.info("Workflow %s (%s) ends early: %s", run.row.uuid, run.row.kind, error.message)
        is_over = outcome.after is None and outcome.phase is not Phase.DONE
        if isinstance(error, NotFound) or is_over or not self._workflow(run).can_walk_back(run.row.step):
            self._end_quietly(run, () if isinstance(error, NotFound) else outcome.undoing)
        else:
            self.advance(run, Failed(Failure(error.message)))

    def _take(self, outcome: StepOutcome, after: WorkflowRow | None) -> Run[Any] | None:
        self._tell(outcome)
        if after is None or after.stuck:
            self.forget(outcome.run)
            if self._workflow(outcome.run).leaves_host or outcome.run.interrupt is Interrupt.EVACUATE:
                # A host that was passed over may have reported its guests before the server was recorded elsewhere.
                self._suspected_strays.look_at(outcome.run.instance_uuid, outcome.run.facts.host)
            return None
        return self._runs.remember(after, outcome.run.memo)

    def _end_quietly(self, run: Run[Any], undoing: Sequence[BoundWrite] = ()) -> None:
        """Remove a workflow that has nothing left to do, its action failed, and let those begin that waited for it.

        ``undoing``: what undoes its first step, unless that is what somebody else has changed.
        """
        try:
            released = self._journal.end(run.row, undoing)
        except TAKEN_OVER:
            released = self._journal.end(run.row)
        self.forget(run)
        self._suspected_strays.look_at(run.instance_uuid, run.facts.host)
        self._begin(released)

    def _send(self, run: Run[Any], effect: SendToAgent, *, resumed: bool) -> Run[Any] | None:
        """Send a message and park; a host that cannot be reached answers with an error at once.

        Where another process has the host's agent, it gets the workflow.
        """
        if effect.facts is not None:
            run = replace(run, facts=effect.facts)
        send = partial(self._pending_replies.send, run, effect, lambda: self._runs.replace(run), ask=resumed)
        refused = send()
        if refused is not None and self._find_agent(effect.host):
            refused = send()
        if refused is None or self._hand_over(run, effect.host):
            return None
        effect_of_refusal = meaning_of(self._services, self._step(run), run, refused)
        if isinstance(effect_of_refusal, Failed) and not resumed:  # the host has never heard of the step
            effect_of_refusal = Failed(replace(effect_of_refusal.failure, undone=True))
        return self._apply(run, effect_of_refusal)

    def _hand_over(self, run: Run[Any], host: str) -> bool:
        """Give a workflow to the process that has a host's agent; also True when it is no longer ours to give."""
        try:
            given = self._journal.hand_over(run.row, host)
        except TAKEN_OVER:
            self.look_again_soon(run.row.uuid)
            return True
        if given:
            self.forget(run)
        return given

    # --- what breaks --------------------------------------------------------------------------------------------------

    def _break_all(self, runs: Sequence[Run[Any]], error: Exception) -> None:
        for run in runs:
            self._break(run, error)

    def _break(self, run: Run[Any], error: Exception) -> None:
        """Log what nobody foresaw, and have the step tried again later, or not any more."""
        if isinstance(error, Unavailable):
            self._tell(StepOutcome(run, run.row, Phase.BROKE, message=error.message))
            # All of them when the database or the lease is gone, again and again: one line of a kind a minute.
            text = f"Tried again later: {run.row.kind} {run.instance_uuid}: {error.message}"
            self._complaints.complain(error.message, text)
            self._retries.later(run.row.uuid, run.row.tries + 1)
            return
        LOG.error("A step broke: %s %s", run.row.kind, run.instance_uuid, exc_info=error)
        if self._retries.are_over(run):
            self._give_up(run, error)
            return
        self._tell(StepOutcome(run, run.row, Phase.BROKE, message=str(error)))
        self._retries.later(run.row.uuid, run.row.tries + 1)
        try:
            row = self._journal.count_try(run.row)
        except ConcurrentUpdate:
            pass  # somebody else has changed it, and it is looked at again
        except Exception as second:  # noqa: BLE001 - the database is away as well: tried again, uncounted
            LOG.warning("A try could not be counted: %s", second)
        else:
            self.remember(row)

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
                self.advance(turned_back)
                return
        if run.interrupted is Interrupt.DELETE or not run.instance_uuid:
            LOG.error("Workflow %s (%s) was given up: %s", run.row.uuid, run.row.kind, failure.message)
            self._end_quietly(run)
        else:
            with self._services.database.read() as connection:
                server = instances.find(connection, run.instance_uuid)
            self._commit([step_outcome.stuck(run, failure, server)])

    def _host_is_back(self, run: Run[Any], error: HostIsBackError) -> None:
        """Have the present step sent once more; a bit later when the host's agent is our own."""
        if self._journal.has_agent_of(error.host):
            self._break(run, error)
        else:
            self.look_again(run.row.uuid)

    # --- small parts --------------------------------------------------------------------------------------------------

    def _workflow(self, run: Run[Any]) -> Workflow[Any]:
        return self._registry[run.row.kind]

    def _step(self, run: Run[Any]) -> Step[Any]:
        return self._registry[run.row.kind].step(run.row.step)

    def _tell_of_beginning(self, run: Run[Any]) -> None:
        event = step_outcome.begins(run)
        for observer in self._beginnings:
            observer(event)

    def _tell(self, outcome: StepOutcome) -> None:
        event = step_outcome.told(outcome, self._workflow(outcome.run))
        for observer in self._observers:
            observer(event)
