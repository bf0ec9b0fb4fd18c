# SPDX-License-Identifier: Apache-2.0
"""Pending rollbacks: a move was rolled back while its source was down; the source restores its guest later (ADR 25)."""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from kilonova.conductor.workflows.guest_description import kept_guest
from kilonova.db import instances, pending_rollbacks, request_specs
from kilonova.db.database import Database
from kilonova.db.pending_rollbacks import DueRollback
from kilonova.messaging.messages import PendingRollback, StepId, StepReply
from kilonova.model.instance import Instance, VmState

LOG = logging.getLogger(__name__)
#: Step id of replies that answer a pending rollback instead of a workflow.
STEP = StepId("", "homecoming", 0)
#: States in which the guest may be started. Any other state was set after the move, so the guest stays off.
_MAY_RUN = {VmState.ACTIVE, VmState.ERROR}


def orders(database: Database, due: Sequence[DueRollback]) -> Mapping[str, tuple[PendingRollback, ...]]:
    """Return host → the orders that make the host restore its guests."""
    if not due:
        return {}
    with database.read() as connection:
        found = {each.uuid: each for each in instances.get_many(connection, [each.instance_uuid for each in due])}
        requests = request_specs.get_many(connection, list(found.values()))
    told: dict[str, list[PendingRollback]] = defaultdict(list)
    for each in due:
        server, request = found.get(each.instance_uuid), requests.get(each.instance_uuid)
        if server is None or request is None:
            continue
        guest = kept_guest(database, server, request, each.noted_at)
        told[each.host].append(PendingRollback(STEP, guest, _may_run(each, server), each.drops_made))
    return {host: tuple(pending_rollbacks) for host, pending_rollbacks in told.items()}


def _may_run(due: DueRollback, server: Instance) -> bool:
    """Return True if the guest ran before its move, and its server is still on the host and not powered off."""
    return due.runs and server.host == due.host and server.vm_state in _MAY_RUN


def take(database: Database, reply: StepReply) -> None:
    """Delete the pending rollback of a guest that its host has restored.

    After an error the record stays, and the agent gets the order again at its next start.
    """
    if reply.error is not None:
        LOG.warning(
            "Host %s: guest %s could not be restored after its rolled-back move: %s", *_names(reply), reply.error
        )
        return
    database.write(partial(pending_rollbacks.forget, host=reply.host, instance_uuid=reply.instance_uuid))
    LOG.info("Host %s: guest %s was restored after its rolled-back move", *_names(reply))


def _names(reply: StepReply) -> tuple[str, str]:
    return reply.host, reply.instance_uuid
