# SPDX-License-Identifier: Apache-2.0
"""Evacuation: if the host of a server is down, rebuild the server on another host."""

from kilonova.conductor.operations.moves import NewMove, start_move
from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflow_engine.run import Interrupt
from kilonova.conductor.workflows.evacuate import EVACUATE
from kilonova.db import workflows
from kilonova.db.core.transaction import Transaction
from kilonova.errors import ConcurrentUpdate, Conflict
from kilonova.model.instance import Instance
from kilonova.model.requester import Requester
from kilonova.model.server_migration import MigrationType


class Evacuations:
    """Operation that evacuates servers from hosts that are down."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter

    def begin(
        self,
        uuid: str,
        left: str | None,
        who: Requester,
        *,
        host: str | None = None,
        forced: bool = False,
        stops: bool = False,
    ) -> None:
        """Start evacuating a server. The server's other workflows roll back first, without waiting for the down host.

        ``left``: the host that is down. ``host``: destination; None to let the scheduler choose. ``forced``: bypass the
        filters. ``stops``: power the server off afterwards.
        Raises: NotFound, UnexpectedTaskState; ConcurrentUpdate if the server is no longer on ``left``; Conflict if the
        server is already being evacuated, unless that evacuation is stuck or waits for its destination.
        """

        def only_if(tx: Transaction, server: Instance) -> None:
            if server.host != left:
                raise ConcurrentUpdate(f"Instance {uuid} was changed meanwhile: it is no longer on host {left}.")
            under_way = workflows.of_instance(tx.connection, uuid)
            if any(row.kind == EVACUATE.kind and not (row.stuck or row.awaits_host) for row in under_way):
                raise Conflict(f"Instance {uuid} is being evacuated already.")

        asked = NewMove(EVACUATE, MigrationType.EVACUATION, host=host, forced=forced, stops=stops)
        start_move(self._starter, asked, uuid, who, only_if=only_if, why=Interrupt.EVACUATE)
