# SPDX-License-Identifier: Apache-2.0
"""Make a server whose host is down anew on another one."""

from kilonova.conductor.operations.moves import NewMove, start_move
from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflow_engine.workflow import Interrupt
from kilonova.conductor.workflows.evacuate import EVACUATE
from kilonova.db import workflows
from kilonova.db.core.transaction import Transaction
from kilonova.errors import ConcurrentUpdate, Conflict
from kilonova.model.instance import Instance
from kilonova.model.requester import Requester
from kilonova.model.server_migration import MigrationType


class Evacuations:
    """Moves servers away from hosts that are taken for dead."""

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
        """Start to make a server anew, on ``host`` if that is given; ``forced``: whatever the rules say of it.

        ``left``: the host that was found to be down. ``stops``: the server is off afterwards. Whatever else is under
        way for it walks back first, without its host.
        Raises: NotFound, UnexpectedTaskState; ConcurrentUpdate for a server that is on another host by now; Conflict
        for one that is being evacuated already.
        """

        def only_if(tx: Transaction, server: Instance) -> None:
            if server.host != left:
                raise ConcurrentUpdate(f"Instance {uuid} was changed meanwhile: it is not on host {left} any more.")
            under_way = workflows.of_instance(tx.connection, uuid)
            if any(row.kind == EVACUATE.kind and not row.stuck for row in under_way):
                raise Conflict(f"Instance {uuid} is being evacuated already.")

        asked = NewMove(EVACUATE, MigrationType.EVACUATION, host=host, forced=forced, stops=stops)
        start_move(self._starter, asked, uuid, who, only_if=only_if, why=Interrupt.EVACUATE)
