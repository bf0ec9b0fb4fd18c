# SPDX-License-Identifier: Apache-2.0
"""Shelve servers, have them leave their hosts, and unshelve them."""

import contextlib
from collections.abc import Callable
from datetime import timedelta

from kilonova.conductor.operations.abandoned_moves import give_up_all
from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflows.shelve import SHELVE, SHELVE_OFFLOAD, OffloadFacts, ShelveFacts
from kilonova.conductor.workflows.stop import StopFacts
from kilonova.conductor.workflows.unshelve import UNSHELVE, UnshelveFacts
from kilonova.db import instances, shelved
from kilonova.db.core.transaction import Transaction
from kilonova.errors import ConcurrentUpdate, NotFound, UnexpectedTaskState
from kilonova.identifiers import new_uuid
from kilonova.model.instance import Instance, VmState
from kilonova.model.requester import Requester

_OFFLOADED_TOGETHER = 50


class Shelving:
    """Puts servers aside, and takes them back."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter

    def shelve(
        self, instance: Instance, image_id: str, who: Requester, register: Callable[[], object], *, offload: bool
    ) -> None:
        """Start to shelve a server as an image, which ``register`` registers; see :class:`~.snapshots.Snapshots`.

        ``offload``: it leaves its host at once. Raises: NotFound, UnexpectedTaskState, ConcurrentUpdate; what
        ``register`` raises.
        """
        state = instance.vm_state
        facts = ShelveFacts(
            instance.host or "",
            image_id,
            runs=state is VmState.ACTIVE,
            off=state is VmState.STOPPED,
            offload=offload,
            timeout_s=StopFacts.of(instance).timeout_s,
        )
        self._starter.start_with_image(
            SHELVE,
            facts,
            instance,
            who,
            register,
            lambda tx: _require_same(tx, instance),
            check=lambda tx: give_up_all(tx, self._starter, instance),
        )

    def offload(self, instance: Instance, who: Requester) -> None:
        """Start to have a shelved server leave its host. Raises: NotFound, UnexpectedTaskState."""
        self._starter.start(SHELVE_OFFLOAD, OffloadFacts(instance.host or ""), instance, who)

    def offload_due(self, patience: timedelta) -> int:
        """Start to offload some of the servers that have been shelved for longer than that; return how many.

        By the clock of the database. One that somebody else changes just then is left for the next time.
        """
        database = self._starter.services.database
        with database.read() as connection:
            due = shelved.due(connection, database.clock.now() - patience, _OFFLOADED_TOGETHER)
        begun = 0
        for instance in due:
            who = Requester(f"req-{new_uuid()}", instance.user_id, instance.project_id)
            with contextlib.suppress(NotFound, UnexpectedTaskState):
                self.offload(instance, who)
                begun += 1
        return begun

    def unshelve(
        self,
        instance: Instance,
        who: Requester,
        *,
        host: str | None = None,
        rezoned: bool = False,
        zone: str | None = None,
    ) -> None:
        """Start to unshelve a server, on ``host`` if that is given.

        ``zone``: which availability zone it is bound to from now on, None for none, if ``rezoned``.
        Raises: NotFound, UnexpectedTaskState, ConcurrentUpdate.
        """
        offloaded = instance.vm_state is VmState.SHELVED_OFFLOADED
        facts = UnshelveFacts(instance.shelved_image, instance.host, offloaded, host, rezoned, zone)
        self._starter.start(UNSHELVE, facts, instance, who, lambda tx: _require_same(tx, instance))


def _require_same(tx: Transaction, instance: Instance) -> None:
    """Raise ConcurrentUpdate unless a server is in the state, on the host and of the image in which it was found."""
    present = instances.get(tx.connection, instance.uuid)
    seen = instance.vm_state, instance.host, instance.shelved_image
    if (present.vm_state, present.host, present.shelved_image) != seen:
        raise ConcurrentUpdate(f"Instance {instance.uuid} was changed meanwhile.")
