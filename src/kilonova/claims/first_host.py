# SPDX-License-Identifier: Apache-2.0
"""Guarded UPDATE that assigns hosts to servers without a host, for the placings of builds and unshelves."""

from collections import defaultdict
from collections.abc import Sequence

import sqlalchemy as sa

from kilonova.claims.placing import Claim, FallsShort, require_isolation
from kilonova.db import consumers, isolation_guard
from kilonova.db.consumers import INSTANCE, Consumer
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Sent
from kilonova.db.core.statements import ManyRows, mapping
from kilonova.db.core.transaction import Transaction
from kilonova.model.instance import TaskState, VmState

_INSTANCE = t.instances.c


class FirstHost:
    """Statement that writes the hosts of servers in vm_state ``state`` and task state ``task``.

    A deleted server has another vm_state, so it gets no host.
    """

    def __init__(self, state: VmState, task: TaskState) -> None:
        self._state = state
        self._task = task
        self._place = ManyRows(
            {
                "uuid": _INSTANCE.uuid.type,
                "host": _INSTANCE.host.type,
                "node": _INSTANCE.node.type,
                "isolation": sa.BigInteger(),
            },
            lambda given: (
                sa.update(t.instances)
                .where(
                    # An additional condition on ``deleted`` would make SQLite choose the wrong index.
                    _INSTANCE.uuid == given["uuid"],
                    _INSTANCE.vm_state == state.value,
                    _INSTANCE.task_state == task.value,
                    given["isolation"] == isolation_guard.VERSION,
                )
                .values(
                    host=given["host"],
                    node=given["node"],
                    task_state=sa.bindparam("shown", type_=_INSTANCE.task_state.type),
                    updated_at=sa.bindparam("now", type_=t.Time),
                )
            ),
        )

    def take(self, tx: Transaction, claims: Sequence[Claim]) -> None:
        """Write the claimed hosts of the servers.

        Raises: FallsShort, with the instances that no longer wait for a host.
        """
        sent = self._send(tx, claims)
        tx.then(lambda: self._check(tx, claims, sum(each.count() for each in sent)))

    def _check(self, tx: Transaction, claims: Sequence[Claim], written: int) -> None:
        if written == len(claims):
            return
        require_isolation(tx, claims)
        # This transaction's own UPDATE has already set the next task state of waiting instances.
        expected = {claim.instance_uuid: claim.shown_after(self._task) for claim in claims}
        present = mapping(
            tx.connection,
            sa.select(_INSTANCE.uuid, _INSTANCE.task_state).where(
                _INSTANCE.uuid.in_(expected), _INSTANCE.deleted.is_(False), _INSTANCE.vm_state == self._state.value
            ),
        )
        gone = frozenset(uuid for uuid, task in expected.items() if present.get(uuid) != task)
        raise FallsShort("a server was deleted or changed", gone)

    def _send(self, tx: Transaction, claims: Sequence[Claim]) -> list[Sent]:
        """Write the hosts of the instances that still wait for one.

        Claims with the same new task state share one statement; most claims have the same one.
        """
        rows: dict[str, list[dict[str, object]]] = defaultdict(list)
        for claim in claims:
            row = {
                "uuid": claim.instance_uuid,
                "host": claim.host,
                "node": claim.node,
                "isolation": claim.isolation_version,
            }
            rows[claim.shown_after(self._task)].append(row)
        return [self._place.send(tx, some, shown=shown, now=tx.now) for shown, some in rows.items()]


def add_consumers(tx: Transaction, claims: Sequence[Claim]) -> None:
    """Insert the Placement consumers of servers that have no allocations yet."""
    consumers.add(tx, [Consumer(claim.instance_uuid, claim.project_id, claim.user_id, INSTANCE) for claim in claims])
