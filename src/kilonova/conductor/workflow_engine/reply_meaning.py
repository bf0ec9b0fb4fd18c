# SPDX-License-Identifier: Apache-2.0
"""Interpretation of an agent's reply for the workflow that waits for it."""

import logging
from typing import Any

from kilonova.conductor.workflow_engine.effects import Completed, Effect
from kilonova.conductor.workflow_engine.run import HasHost, Interrupt, Run, UndoFailedError
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import Step
from kilonova.db import instances
from kilonova.messaging.messages import StepReply

LOG = logging.getLogger(__name__)


def meaning_of(services: Services, step: Step[Any], run: Run[HasHost], reply: StepReply) -> Effect:
    """Return the effect that an agent's reply has on the present step of its workflow. Raises: UndoFailedError."""
    try:
        return (step.on_undone if run.row.undoing else step.on_reply)(services, run, reply)
    except UndoFailedError as error:
        if not _is_left(services, run, reply.host):
            raise
        LOG.warning("Server %s: an undo step on dead host %s is skipped: %s", run.instance_uuid, reply.host, error)
        return Completed(write=step.on_skipped(services, run, reply))


def _is_left(services: Services, run: Run[HasHost], host: str) -> bool:
    """Return True if the undo of a step on ``host`` may fail, because the server is being evacuated from that host.

    The agent of that host is nevertheless ordered to undo the step, so that no guest keeps running there. If the agent
    fails or is unreachable, the rollback skips the undo and continues.
    """
    if run.interrupt is not Interrupt.EVACUATE or not run.row.undoing:
        return False
    with services.database.read() as connection:
        return instances.place_of(connection, run.instance_uuid)[0] == host
