# SPDX-License-Identifier: Apache-2.0
"""Timeout of builds (``instance_build_timeout``)."""

from datetime import timedelta

from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflow_engine import server_log, step_outcome
from kilonova.conductor.workflow_engine.run import Failure, Interrupt
from kilonova.conductor.workflows.build import BUILD
from kilonova.db import instance_actions, instances, workflows
from kilonova.db.core.transaction import Transaction
from kilonova.db.workflows import WorkflowRow

_TOGETHER = 50


class Builds:
    """Operations on running builds."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter

    def time_out(self, age: timedelta) -> int:
        """Fail one batch of builds that started more than ``age`` ago by the database clock; return their number.

        Call this until it returns 0. The servers are set to error at once; their guests and claims are removed after
        the hosts have answered.
        """
        seconds = f"{age.total_seconds():g}"

        def end(tx: Transaction) -> tuple[tuple[WorkflowRow, tuple[WorkflowRow, ...]], ...]:
            due = workflows.builds_before(tx.connection, BUILD.kind, tx.now - age, _TOGETHER)
            return tuple((row, self._end(tx, row, f"The build took longer than {seconds} s.")) for row in due)

        ended = self._starter.services.database.write(end)
        for row, interrupted in ended:
            server_log.timed_out(row.instance_uuid, row.request_id, row.kind, seconds)
            self._starter.runner.interrupted(interrupted)
        return len(ended)

    def _end(self, tx: Transaction, row: WorkflowRow, why: str) -> tuple[WorkflowRow, ...]:
        run = BUILD.run(row)
        failure = Failure(why, f"{why}\nHost: {run.facts.host or 'none'}", run.facts.host)
        event = step_outcome.failed_event(BUILD, run, failure)
        interrupted = self._starter.runner.interrupt(tx, row.instance_uuid, Interrupt.TIMEOUT)
        instances.change(
            tx,
            row.instance_uuid,
            expected_states=BUILD.transition.states,
            vm_state=BUILD.transition.failed,
            task_state=None,
        )
        instances.record_fault(tx, row.instance_uuid, failure.as_fault())
        instance_actions.add_events(tx, [] if event is None else [event])
        instance_actions.fail(tx, [(row.instance_uuid, row.request_id)])
        return interrupted
