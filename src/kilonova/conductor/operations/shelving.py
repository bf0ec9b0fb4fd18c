# SPDX-License-Identifier: Apache-2.0
"""Shelve, offload and unshelve of servers."""

import contextlib
from collections.abc import Callable
from datetime import timedelta

from kilonova.conductor.operations.abandoned_moves import give_up_all
from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflows.host_facts import NetworkedHostFacts
from kilonova.conductor.workflows.shelve import SHELVE, SHELVE_OFFLOAD, ShelveFacts
from kilonova.conductor.workflows.stop import StopFacts
from kilonova.conductor.workflows.unshelve import UNSHELVE, UnshelveFacts
from kilonova.db import shelved
from kilonova.db.core.transaction import Transaction
from kilonova.errors import ConcurrentUpdate, NotFound, UnexpectedTaskState
from kilonova.identifiers import new_uuid
from kilonova.model.instance import Instance, VmState
from kilonova.model.requester import Requester

_OFFLOADED_TOGETHER = 50


class Shelving:
    """Operations that shelve and unshelve servers."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter

    def shelve(
        self, uuid: str, image_id: str, who: Requester, register: Callable[[], object], *, offload: bool
    ) -> None:
        """Start shelving a server.

        ``image_id``: image for the server's disk. ``register``: creates that image in Glance, as in :class:`Snapshots`.
        ``offload``: whether the server leaves its host at once.
        Raises: NotFound, UnexpectedTaskState, ConcurrentUpdate; errors of ``register``.
        """

        def facts_of(server: Instance) -> ShelveFacts:
            return ShelveFacts(
                server.host or "",
                image_id,
                runs=server.vm_state is VmState.ACTIVE,
                off=server.vm_state is VmState.STOPPED,
                offload=offload,
                timeout_s=StopFacts.of(server).timeout_s,
            )

        def before(tx: Transaction, _server: Instance) -> None:
            give_up_all(tx, self._starter, uuid)

        self._starter.start_with_image(SHELVE, facts_of, uuid, image_id, who, register, before=before)

    def offload(self, uuid: str, who: Requester) -> None:
        """Start offloading a shelved server from its host. Raises: NotFound, UnexpectedTaskState."""
        self._starter.start(SHELVE_OFFLOAD, lambda server: NetworkedHostFacts(server.host or ""), uuid, who)

    def offload_due(self, timeout: timedelta) -> int:
        """Start offloading a batch of servers that have been shelved for longer than ``timeout``; return their number.

        The time is measured by the database clock. A server that was changed concurrently is left for the next run.
        """
        database = self._starter.services.database
        with database.read() as connection:
            due = shelved.due(connection, database.clock.now() - timeout, _OFFLOADED_TOGETHER)
        begun = 0
        for instance in due:
            who = Requester(f"req-{new_uuid()}", instance.user_id, instance.project_id)
            with contextlib.suppress(NotFound, UnexpectedTaskState):
                self.offload(instance.uuid, who)
                begun += 1
        return begun

    def unshelve(
        self,
        uuid: str,
        who: Requester,
        *,
        host: str | None = None,
        rezoned: bool = False,
        zone: str | None = None,
    ) -> None:
        """Start unshelving a server.

        ``host``: destination; None to let the scheduler choose. ``rezoned``: whether to change the server's requested
        availability zone to ``zone``. ``zone``: new zone; None for no zone.
        Raises: NotFound, UnexpectedTaskState; ConcurrentUpdate if a host or zone is given and the server is not
        offloaded.
        """

        def facts_of(server: Instance) -> UnshelveFacts:
            offloaded = server.vm_state is VmState.SHELVED_OFFLOADED
            return UnshelveFacts(server.shelved_image, server.host, offloaded, host, rezoned, zone)

        def only_if(_tx: Transaction, server: Instance) -> None:
            if host is not None or rezoned:
                _require_offloaded(server)

        self._starter.start(UNSHELVE, facts_of, uuid, who, only_if=only_if)


def _require_offloaded(server: Instance) -> None:
    """Raise ConcurrentUpdate unless a server is offloaded: only then its unshelve accepts a host or zone."""
    if server.vm_state is not VmState.SHELVED_OFFLOADED:
        raise ConcurrentUpdate(f"Instance {server.uuid} was changed meanwhile: it is still on its host.")
