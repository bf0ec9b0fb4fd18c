# SPDX-License-Identifier: Apache-2.0
"""Servers that are on no host, and get one together with all that they hold there."""

from collections import defaultdict
from collections.abc import Sequence

import sqlalchemy as sa

from kilonova.claims.placing import Claim, FallsShort, require_isolation
from kilonova.db import consumers, isolation_guard
from kilonova.db.consumers import INSTANCE, Consumer
from kilonova.db.core import tables as t
from kilonova.db.core.statements import ManyRows, mapping
from kilonova.db.core.transaction import Transaction
from kilonova.model.instance import TaskState, VmState

_INSTANCE = t.instances.c


class FirstHost:
    """Servers in ``state`` that wait for a host with ``task``. A deleted one has another state."""

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
                    # Asking whether it is deleted as well leads SQLite to the wrong index.
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
        """Write their hosts. Raises: FallsShort with those that do not wait any more."""
        if self._write(tx, claims) == len(claims):
            return
        require_isolation(tx, claims)
        # This transaction's own update has given the ones that were waiting their next task.
        expected = {claim.instance_uuid: claim.shown_after(self._task) for claim in claims}
        present = mapping(
            tx.connection,
            sa.select(_INSTANCE.uuid, _INSTANCE.task_state).where(
                _INSTANCE.uuid.in_(expected), _INSTANCE.deleted.is_(False), _INSTANCE.vm_state == self._state.value
            ),
        )
        gone = frozenset(uuid for uuid, task in expected.items() if present.get(uuid) != task)
        raise FallsShort("an instance is gone", gone)

    def _write(self, tx: Transaction, claims: Sequence[Claim]) -> int:
        """Write the hosts of the instances that still wait; return their number.

        Claims of one kind show the same task next, so it is a parameter of the statement and not a value of each row.
        """
        rows: dict[str, list[dict[str, object]]] = defaultdict(list)
        for claim in claims:
            place = {"host": claim.host, "node": claim.node, "isolation": claim.isolation_version}
            rows[claim.shown_after(self._task)].append({"uuid": claim.instance_uuid, **place})
        return sum(self._place.run(tx, some, shown=shown, now=tx.now) for shown, some in rows.items())


def add_consumers(tx: Transaction, claims: Sequence[Claim]) -> None:
    """Write the consumers of servers that hold nothing yet."""
    consumers.add(tx, [Consumer(claim.instance_uuid, claim.project_id, claim.user_id, INSTANCE) for claim in claims])
