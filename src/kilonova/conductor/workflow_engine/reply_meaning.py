# SPDX-License-Identifier: Apache-2.0
"""What the reply of an agent means to the workflow that waits for it."""

import logging
from typing import Any

from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.workflow import Completed, Effect, Interrupt, Run, Step, UndoFailedError
from kilonova.db import instances
from kilonova.messaging.messages import StepReply

LOG = logging.getLogger(__name__)


def meaning_of(services: Services, step: Step[Any], run: Run[Any], reply: StepReply) -> Effect:
    """Return what comes of the present step. Raises: UndoFailedError."""
    try:
        return (step.on_undone if run.row.undoing else step.on_reply)(services, run, reply)
    except UndoFailedError as error:
        if not _is_left(services, run, reply.host):
            raise
        LOG.warning("Server %s leaves host %s as it is: %s", run.instance_uuid, reply.host, error)
        return Completed(write=step.on_skipped(services, run, reply))


def _is_left(services: Services, run: Run[Any], host: str) -> bool:
    """Tell whether something is being undone at a host that is taken for dead, and that its server leaves.

    An agent that is alive all the same is asked to undo it, so that no guest goes on there; but what it cannot do,
    and what a host without one would have to, keeps nobody waiting.
    """
    if run.interrupt is not Interrupt.EVACUATE or not run.row.undoing:
        return False
    with services.database.read() as connection:
        return instances.place_of(connection, run.instance_uuid)[0] == host
