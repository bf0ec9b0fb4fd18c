# SPDX-License-Identifier: Apache-2.0
"""The placing of an unshelve: a server that is nowhere gets a host, and takes there all that it holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import sqlalchemy as sa

from kilonova.claims.placing import Claim, FallsShort, require_isolation
from kilonova.db import consumers, instance_actions, instances, isolation_guard
from kilonova.db import tables as t
from kilonova.db.consumers import INSTANCE, Consumer
from kilonova.db.instance_actions import EndedEvent
from kilonova.db.statements import ManyRows
from kilonova.db.transaction import Transaction
from kilonova.model.instance import TaskState, VmState


@dataclass(frozen=True, slots=True)
class Unshelving:
    """A server that is shelved, has left its host, and is being unshelved. ``ended``: as users see the claim."""

    ended: EndedEvent | None = None
    home: ClassVar[None] = None

    @classmethod
    def take(cls, tx: Transaction, claims: Sequence[Claim]) -> None:
        rows = [
            {
                "uuid": claim.instance_uuid,
                "host": claim.host,
                "node": claim.node,
                "isolation": claim.isolation_version,
            }
            for claim in claims
        ]
        if _PLACE.run(tx, rows, now=tx.now) == len(rows):
            return
        require_isolation(tx, claims)
        waiting = tx.execute(
            sa.select(_INSTANCE.uuid).where(
                _INSTANCE.uuid.in_([claim.instance_uuid for claim in claims]),
                _INSTANCE.deleted.is_(False),
                _INSTANCE.vm_state == VmState.SHELVED_OFFLOADED.value,
                # This transaction's own update has already moved the ones that were waiting.
                _INSTANCE.task_state == TaskState.SPAWNING.value,
            )
        ).scalars()
        raise FallsShort("an instance is gone", frozenset(claim.instance_uuid for claim in claims) - set(waiting))

    @classmethod
    def record(cls, tx: Transaction, claims: Sequence[Claim]) -> None:
        consumers.add(
            tx, [Consumer(claim.instance_uuid, claim.project_id, claim.user_id, INSTANCE) for claim in claims]
        )
        ended = [claim.placing.ended for claim in claims if isinstance(claim.placing, Unshelving)]
        instance_actions.add_events(tx, [event for event in ended if event is not None])
        for claim in claims:
            instances.log(tx, claim.instance_uuid)


_INSTANCE = t.instances.c
_PLACE = ManyRows(
    {
        "uuid": _INSTANCE.uuid.type,
        "host": _INSTANCE.host.type,
        "node": _INSTANCE.node.type,
        "isolation": sa.BigInteger(),
    },
    lambda given: (
        sa.update(t.instances)
        .where(
            _INSTANCE.uuid == given["uuid"],
            _INSTANCE.vm_state == VmState.SHELVED_OFFLOADED.value,
            _INSTANCE.task_state == TaskState.UNSHELVING.value,
            given["isolation"] == isolation_guard.VERSION,
        )
        .values(
            host=given["host"],
            node=given["node"],
            task_state=TaskState.SPAWNING.value,
            updated_at=sa.bindparam("now", type_=t.Time),
        )
    ),
)
