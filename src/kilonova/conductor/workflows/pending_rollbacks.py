# SPDX-License-Identifier: Apache-2.0
"""Guests that hosts have to take back when they return, from moves that were undone without them (ADR 25)."""

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
#: What a host says with this is no reply to a workflow.
STEP = StepId("", "homecoming", 0)
#: A server in any other state was brought there by somebody since, and its guest stays off.
_MAY_RUN = {VmState.ACTIVE, VmState.ERROR}


def orders(database: Database, due: Sequence[DueRollback]) -> Mapping[str, tuple[PendingRollback, ...]]:
    """Return host → what it is told of the guests that it has to take back."""
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
    """Tell whether a guest that ran before its move runs again: not where its server is elsewhere by now, or off."""
    return due.runs and server.host == due.host and server.vm_state in _MAY_RUN


def take(database: Database, reply: StepReply) -> None:
    """Forget the record of a guest that is home; what a host could not do it is told again when it starts next."""
    if reply.error is not None:
        LOG.warning("Host %s: guest %s is not what it was before its move: %s", *_names(reply), reply.error)
        return
    database.write(partial(pending_rollbacks.forget, host=reply.host, instance_uuid=reply.instance_uuid))
    LOG.info("Host %s: guest %s is what it was before its move", *_names(reply))


def _names(reply: StepReply) -> tuple[str, str]:
    return reply.host, reply.instance_uuid
