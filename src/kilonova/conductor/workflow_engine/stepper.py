# SPDX-License-Identifier: Apache-2.0
"""Execution of workflows: runs the steps of a workflow until it waits for an agent, ends, or a step raises an error.

Every write to a workflow's row requires the expected owner and version. If another process or action has changed the
row, the stepper reads it from the journal again and continues from there.
:mod:`kilonova.conductor.workflow_engine.runner` calls the stepper.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from kilonova.conductor.hosts.suspected_strays import SuspectedStrays
from kilonova.conductor.workflow_engine import step_outcome
from kilonova.conductor.workflow_engine.effects import (
    Again,
    AwaitEvents,
    BoundWrite,
    Claimed,
    ClaimForMembers,
    ClaimHost,
    Completed,
    Effect,
    Failed,
    Gone,
    SendToAgent,
)
from kilonova.conductor.workflow_engine.event_waits import EventWaits
from kilonova.conductor.workflow_engine.events import Observer, Phase
from kilonova.conductor.workflow_engine.host_claims import HostClaims, Result
from kilonova.conductor.workflow_engine.journal import Journal
from kilonova.conductor.workflow_engine.pending_replies import PendingReplies
from kilonova.conductor.workflow_engine.reply_meaning import meaning_of
from kilonova.conductor.workflow_engine.retries import Retries
from kilonova.conductor.workflow_engine.run import (
    NO_HOST,
    TAKEN_OVER,
    UNREACHABLE,
    Failure,
    HasHost,
    HostAwayError,
    HostIsBackError,
    Interrupt,
    Run,
    UndoFailedError,
)
from kilonova.conductor.workflow_engine.runs import Runs
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_outcome import StepOutcome
from kilonova.conductor.workflow_engine.workflow import Step, Workflow
from kilonova.db import instances
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import ConcurrentUpdate, NotFound, Unavailable, UnexpectedTaskState
from kilonova.logs.rate_limited_log import RateLimitedLog
from kilonova.messaging.bus import ConductorBus
from kilonova.messaging.messages import StepReply
from kilonova.records import replace

LOG = logging.getLogger(__name__)


class Stepper:
    """Executes the workflows of one process. At most one thread at a time works on a workflow (``runs.py``).

    ``observers``: receive an event for every change of a workflow. ``beginnings``: observers that receive an event when
    a step starts for the first time.
    ``find_agent``: checks in the database whether a host that seemed unreachable can be reached; may block.
    ``begin``: starts workflows that waited for another workflow which has ended, if this process owns them.
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
        event_waits: EventWaits,
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
        self._event_waits = event_waits
        self._retries = retries
        self._suspected_strays = suspected_strays
        self._find_agent = find_agent
        self._begin = begin
        self._claims = HostClaims(services.claimer, registry)
        self._complaints = RateLimitedLog(LOG)

    # --- running workflows --------------------------------------------------------------------------------------------

    def remember(self, row: WorkflowRow, memo: Any = None) -> Run[HasHost] | None:
        """Keep ``row`` in memory unless a newer row is known; return the run of ``row``, or None if unreadable.

        While the reply to a message is pending, the facts that were kept with the message stay: the journal lacks them.
        """
        known = self._runs.get(row.uuid)
        sent = known is not None and known.row.attempt == row.attempt and self._pending_replies.is_pending(known)
        run = self._runs.remember(row, memo, facts=known.facts if known is not None and sent else None)
        newest = self._runs.get(row.uuid)
        if newest is not None:  # the remembered run may be newer than ``row``, which was read earlier
            self._pending_replies.leave(row.uuid, newest.row.attempt)
        return run

    def forget(self, run: Run[HasHost]) -> None:
        """Remove an ended or handed-over workflow from memory."""
        if self._runs.forget(run):
            self._pending_replies.leave(run.row.uuid)
            self._event_waits.leave(run.row.uuid)
            self._retries.forget(run.row.uuid)

    def submit(self, run: Run[HasHost], work: Callable[[], None]) -> None:
        """Queue work for a workflow; a workflow that is urgent or interrupted runs ahead of the others."""
        if self._workflow(run).urgent or run.row.interrupt is not None:
            self._bus.run_urgently(work)
        else:
            self._bus.run_in_conductor(work)

    def look_again_soon(self, uuid: str, *, resumed: bool = True) -> None:
        """Queue :meth:`look_again`, ahead of ordinary work."""
        self._bus.run_urgently(partial(self._runs.post, uuid, partial(self.look_again, uuid, resumed=resumed)))

    def look_again(self, uuid: str, *, resumed: bool = True) -> None:
        """Read a workflow from the journal and continue it, since another process or action may have changed it."""
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
        """Order the agent to end the present step early, if the step declares such an order for the interrupt."""
        run = self._runs.get(uuid)
        if run is None or run.interrupt is None or run.row.undoing or not self._pending_replies.is_pending(run):
            return
        cut = self._step(run).interrupts.get(run.interrupt)
        effect = None if cut is None else cut(self._services, run)
        if isinstance(effect, SendToAgent):
            try:
                self._bus.cast(effect.host, effect.message)
            except Unavailable as error:
                LOG.warning("Workflow %s (%s) cannot be cut short: %s", uuid, run.row.kind, error.message)

    # --- execution of steps -------------------------------------------------------------------------------------------

    def begin_together(self, runs: Sequence[Run[HasHost]]) -> None:
        """Do the first step of all workflows of one API request. If one of them gets no host, none gets a host."""
        try:
            effects = [(run, self._step(run).act(self._services, run)) for run in runs]
        except Exception as error:  # noqa: BLE001 - any error is logged and retried
            self._break_all(runs, error)
            return
        go_on = partial(self._claim_together, effects)
        if any(self._claims.may_block(effect) for _, effect in effects):
            self._bus.run_blocking(go_on)
        else:
            go_on()

    def _claim_together(self, effects: Sequence[tuple[Run[HasHost], Effect]]) -> None:
        """Claim hosts for those workflows of an API request that need one; continue all workflows of the request."""
        asked = [(run, effect) for run, effect in effects if isinstance(effect, ClaimHost)]
        known: list[tuple[Run[HasHost], Effect | Result]] = [
            (run, effect) for run, effect in effects if not isinstance(effect, ClaimHost)
        ]
        try:
            known += zip((run for run, _ in asked), self._claims.claim(asked), strict=True)
            lost = [(run, effect.failure) for run, effect in known if isinstance(effect, Failed)]
            if len(lost) > 1:  # one transaction stores all failures, so that no client sees a partly failed request
                self._commit([step_outcome.failed(self._services, self._workflow(run), run, why) for run, why in lost])
                known = [(run, effect) for run, effect in known if not isinstance(effect, Failed)]
        except Exception as error:  # noqa: BLE001 - as above
            self._break_all([run for run, _ in effects], error)
            return
        for run, effect in known:
            self._runs.post(run.row.uuid, partial(self.advance, run, effect))

    def resume(self, run: Run[HasHost], reply: StepReply) -> None:
        """Continue a workflow with the effect of an agent's reply."""
        try:
            effect = meaning_of(self._services, self._step(run), run, reply)
        except HostAwayError as error:
            self._wait_for_host(run, error.host)
        except Exception as error:  # noqa: BLE001 - any error is logged and retried
            self._break(run, error)
        else:
            self.advance(run, effect)

    def advance(
        self,
        run: Run[HasHost] | None,
        effect: Effect | Result | None = None,
        *,
        resumed: bool = False,
        may_block: bool = False,
    ) -> None:
        """Run steps until the workflow waits or ends, or a step raises an error.

        ``effect``: the effect of the present step; None if the step has not run yet.
        ``resumed``: the present step may have run before, so its message may already have been sent.
        ``may_block``: this thread may run a present step that takes seconds.
        """
        while run is not None:
            present = run
            try:
                if effect is None:
                    step = self._step(run)
                    if not may_block and step.blocks(run.facts, undoing=run.row.undoing):
                        self._advance_aside(run, resumed=resumed)
                        return
                    if self._beginnings and not (resumed or run.row.undoing):
                        self._tell_of_beginning(run)
                    effect = step.act(self._services, replace(run, repeated=True) if resumed else run)
                    if self._claims.may_block(effect):
                        again = partial(self.advance, run, effect)
                        self._bus.run_blocking(partial(self._runs.post, run.row.uuid, again))
                        return
                run = self._apply(run, effect, resumed=resumed)
            except HostIsBackError as error:
                self._host_is_back(present, error)
                return
            except HostAwayError as error:
                self._wait_for_host(present, error.host)
                return
            except Exception as error:  # noqa: BLE001 - any error is logged and retried
                self._break(present, error)
                return
            effect, resumed, may_block = None, False, False

    def _advance_aside(self, run: Run[HasHost], *, resumed: bool) -> None:
        """Continue a workflow on a thread that may block, unless the workflow has changed meanwhile."""

        def advance() -> None:
            known = self._runs.get(run.row.uuid)
            if known is not None and (known.row.version, known.row.attempt) == (run.row.version, run.row.attempt):
                self.advance(known, resumed=resumed, may_block=True)

        self._bus.run_blocking(partial(self._runs.post, run.row.uuid, advance))

    def _apply(self, run: Run[HasHost], effect: Effect | Result, *, resumed: bool = False) -> Run[HasHost] | None:
        """Apply an effect; return the run to continue with, or None if the workflow waits or has ended."""
        workflow = self._workflow(run)
        match effect:
            case SendToAgent():
                return self._send(run, effect, resumed=resumed)
            case Completed():
                act = step_outcome.undone if run.row.undoing else step_outcome.completed
                outcome = act(self._services, workflow, run, effect)
                if (
                    not effect.durable
                    and outcome.stores_nothing
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
                self._tell(StepOutcome(run=known, after=effect.row, phase=Phase.STEP_DONE))
                return after
            case Failed():
                return self._turn_back(run, effect.failure)
            case Again():
                again = replace(run, facts=effect.facts)
                if self._runs.replace(again):
                    self.submit(run, partial(self._runs.post, run.row.uuid, partial(self.advance, again)))
            case AwaitEvents():
                if run.taken_over:
                    self._runs.replace(replace(run, taken_over=False))
                self._event_waits.add(run, effect.until)
            case Gone():
                self._end_quietly(run)
        return None

    def _turn_back(self, run: Run[HasHost], failure: Failure) -> Run[HasHost] | None:
        workflow = self._workflow(run)
        if failure.host is not None and workflow.waits_after(run.row.step, failure):
            raise HostAwayError(failure.host)
        if run.row.undoing or not workflow.can_walk_back(run.row.step):
            raise UndoFailedError(failure.message)
        return self._commit([step_outcome.failed(self._services, workflow, run, failure)])

    def _commit(self, made: Sequence[StepOutcome]) -> Run[HasHost] | None:
        """Commit step outcomes. Return the run after the last one; None if it ended, got stuck or was not committed."""
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

    def _was_refused(self, runs: Sequence[Run[HasHost]], error: ConcurrentUpdate) -> None:
        """Handle a refused commit: if one of the workflows has changed, read all of them from the journal again.

        If none has changed, the steps' own writes conflicted with another transaction, so the steps are retried later.
        """
        present = {run.row.uuid: self._journal.find(run.row.uuid) for run in runs}
        versions = {uuid: None if row is None else row.version for uuid, row in present.items()}
        unchanged = all(versions[run.row.uuid] == run.row.version for run in runs)
        for run in runs:
            if unchanged:
                self._break(run, error)
            else:
                LOG.info("Workflow %s (%s) was changed concurrently", run.row.uuid, run.row.kind)
                self.look_again_soon(run.row.uuid)

    def _was_taken_over(self, outcome: StepOutcome, error: NotFound | UnexpectedTaskState) -> None:
        """Roll back a workflow whose server another action has changed.

        If there is nothing to undo, the workflow ends at once.
        """
        run = outcome.run
        LOG.info("Workflow %s (%s) ends early: %s", run.row.uuid, run.row.kind, error.message)
        is_over = outcome.after is None and outcome.phase is not Phase.DONE
        if isinstance(error, NotFound) or is_over or not self._workflow(run).can_walk_back(run.row.step):
            self._end_quietly(run, () if isinstance(error, NotFound) else outcome.undoing)
        else:
            self.advance(run, Failed(Failure(error.message)))

    def _take(self, outcome: StepOutcome, after: WorkflowRow | None) -> Run[HasHost] | None:
        self._tell(outcome)
        if after is None or after.stuck:
            self.forget(outcome.run)
            if self._workflow(outcome.run).leaves_host or outcome.run.interrupt is Interrupt.EVACUATE:
                # A report of this guest had no effect while the server was still recorded on the host. So the host is
                # now queried for the guest.
                self._suspected_strays.look_at(outcome.run.instance_uuid, outcome.run.facts.host)
            return None
        return self._runs.remember(after, outcome.run.memo)

    def _end_quietly(self, run: Run[HasHost], undoing: Sequence[BoundWrite] = ()) -> None:
        """End a workflow that has nothing left to do: its instance action fails; the workflows waiting for it start.

        ``undoing``: writes that undo the first step of the workflow. If these writes fail because the server was
        changed concurrently, the workflow ends without them.
        """
        try:
            released = self._journal.end(run.row, undoing)
        except TAKEN_OVER:
            released = self._journal.end(run.row)
        self.forget(run)
        self._suspected_strays.look_at(run.instance_uuid, run.facts.host)
        self._begin(released)

    def _send(self, run: Run[HasHost], effect: SendToAgent, *, resumed: bool) -> Run[HasHost] | None:
        """Send a step's message to an agent. If the host cannot be reached, continue as after an error reply.

        If another process runs the host's agent, hand the workflow over to that process.
        """
        if not effect.host:  # a server without a host has no guest: nothing can be ordered, and nothing must be undone
            nothing: Effect = Completed() if run.row.undoing else Failed(Failure(NO_HOST, undone=True))
            return self._apply(run, nothing)
        if effect.facts is not None:
            run = replace(run, facts=effect.facts)
        send = partial(self._pending_replies.send, run, effect, lambda: self._runs.replace(run), ask=resumed)
        refused = send()
        if refused is not None and self._find_agent(effect.host):
            refused = send()
        if refused is None:
            self._has_found_host(run)
            return None
        if self._hand_over(run, effect.host):
            return None
        effect_of_refusal = meaning_of(self._services, self._step(run), run, refused)
        # The message was never sent, so there is nothing to undo.
        if isinstance(effect_of_refusal, Failed) and not resumed:
            effect_of_refusal = Failed(replace(effect_of_refusal.failure, undone=True))
        return self._apply(run, effect_of_refusal)

    def _has_found_host(self, run: Run[HasHost]) -> None:
        """After a message was sent: if the workflow waited for the absent host, record that the wait is over."""
        if run.row.awaited_host is None:
            return
        try:
            self._runs.put(replace(run, row=self._journal.has_found_host(run.row)))
        except ConcurrentUpdate:
            self.look_again_soon(run.row.uuid)

    def _wait_for_host(self, run: Run[HasHost], host: str) -> None:
        """Make a workflow wait for an absent host; its order is sent again and again, until the wait exceeds its limit.

        A workflow that a delete or a soft delete has interrupted ends instead of waiting. The attempt number stays the
        same, so that the host can report the result of an order that it has already executed.
        """
        row = run.row
        if run.interrupted is Interrupt.SOFT_DELETE:
            self._delete_for_good(run)
            return
        if run.interrupted is Interrupt.DELETE:
            self._leave_to_delete(run)
            return
        if row.awaited_host != host:
            try:
                self.remember(self._journal.await_host(row, host))
            except ConcurrentUpdate:
                self.look_again_soon(row.uuid)
                return
            self._tell(StepOutcome(run=run, after=row, phase=Phase.AWAITS_HOST, host=host))
        elif row.awaited_since is not None and self._retries.has_waited_too_long(
            row.awaited_since, self._journal.now()
        ):
            self._give_up(run, HostAwayError(host))
            return
        self._retries.wait(row.uuid)

    def _delete_for_good(self, run: Run[HasHost]) -> None:
        """Turn the soft delete that has interrupted a workflow into a delete, because the workflow cannot be completed.

        A server with an incomplete workflow cannot be restored.
        """
        with suppress(ConcurrentUpdate):
            self._journal.delete_for_good(run.instance_uuid)
        self.look_again_soon(run.row.uuid)

    def _leave_to_delete(self, run: Run[HasHost]) -> None:
        """Roll back a workflow of a server that is being deleted, without its absent host.

        A move ends at once, because the delete finds both hosts in the open migration.
        """
        if self._workflow(run).is_move or not (run.row.undoing or self._workflow(run).can_walk_back(run.row.step)):
            self._end_quietly(run)
        elif run.row.undoing:
            self.advance(run, Completed())
        else:
            self.advance(run, Failed(Failure(UNREACHABLE)))

    def _hand_over(self, run: Run[HasHost], host: str) -> bool:
        """Hand a workflow over to the process that runs a host's agent; return False if this process keeps it.

        Also return True if another process or action has changed the workflow meanwhile.
        """
        try:
            given = self._journal.hand_over(run.row, host)
        except TAKEN_OVER:
            self.look_again_soon(run.row.uuid)
            return True
        if given:
            self.forget(run)
        return given

    # --- unexpected errors --------------------------------------------------------------------------------------------

    def _break_all(self, runs: Sequence[Run[HasHost]], error: Exception) -> None:
        for run in runs:
            self._break(run, error)

    def _break(self, run: Run[HasHost], error: Exception) -> None:
        """Log an unexpected error, and retry the step later or give it up."""
        if isinstance(error, Unavailable):
            self._tell(StepOutcome(run=run, after=run.row, phase=Phase.BROKE, message=error.message))
            # If the database or the lease is lost, every workflow fails repeatedly. So each error message is logged at
            # most once a minute.
            text = f"Workflow of server {run.instance_uuid} ({run.row.kind}) is retried later: {error.message}"
            self._complaints.complain(error.message, text)
            self._retries.later(run.row.uuid, run.row.tries + 1)
            return
        if isinstance(error, UndoFailedError):
            LOG.warning(
                "Step %s of %s of server %s cannot be rolled back; the step is tried again: %s",
                run.row.step,
                run.row.kind,
                run.instance_uuid,
                error,
            )
        else:
            LOG.error("A step of %s of server %s failed unexpectedly", run.row.kind, run.instance_uuid, exc_info=error)
        if self._retries.are_over(run):
            self._give_up(run, error)
            return
        self._tell(StepOutcome(run=run, after=run.row, phase=Phase.BROKE, message=str(error)))
        self._retries.later(run.row.uuid, run.row.tries + 1)
        try:
            row = self._journal.count_try(run.row)
        except ConcurrentUpdate:
            pass  # the row was changed concurrently; the retry reads it from the journal
        except Exception as second:  # noqa: BLE001 - the database fails too: the try is not counted
            LOG.warning("The number of tries could not be stored: %s", second)
        else:
            self.remember(row)

    def _give_up(self, run: Run[HasHost], error: Exception) -> None:
        """Roll back a workflow whose step keeps failing, or mark the workflow stuck if a rollback is impossible."""
        failure = self._retries.failure(run, error)
        if not run.row.undoing and self._workflow(run).can_walk_back(run.row.step):
            try:
                turned_back = self._turn_back(run, failure)
            except Unavailable as away:
                self._break(run, away)
                return
            except Exception:
                LOG.exception("The rollback of %s of server %s failed too", run.row.kind, run.instance_uuid)
            else:
                self.advance(turned_back)
                return
        if run.interrupted is Interrupt.SOFT_DELETE:
            self._delete_for_good(run)
        elif run.interrupted is Interrupt.DELETE or not run.instance_uuid:
            LOG.error("Workflow %s (%s) was given up: %s", run.row.uuid, run.row.kind, failure.message)
            self._end_quietly(run)
        else:
            with self._services.database.read() as connection:
                server = instances.find(connection, run.instance_uuid)
            self._commit([step_outcome.stuck(run, failure, server)])

    def _host_is_back(self, run: Run[HasHost], error: HostIsBackError) -> None:
        """Send the order of the present step again, since its host has returned.

        If this process itself runs the host's agent, that agent is just starting, so the order is sent after a pause.
        """
        if self._journal.has_agent_of(error.host):
            self._retries.later(run.row.uuid, run.row.tries + 1)
        else:
            self.look_again(run.row.uuid)

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _workflow(self, run: Run[HasHost]) -> Workflow[Any]:
        return self._registry[run.row.kind]

    def _step(self, run: Run[HasHost]) -> Step[Any]:
        return self._registry[run.row.kind].step(run.row.step)

    def _tell_of_beginning(self, run: Run[HasHost]) -> None:
        event = step_outcome.begins(run)
        for observer in self._beginnings:
            observer(event)

    def _tell(self, outcome: StepOutcome) -> None:
        event = step_outcome.told(outcome, self._workflow(outcome.run))
        for observer in self._observers:
            observer(event)
