# SPDX-License-Identifier: Apache-2.0
"""Make a server whose host is down anew on another one."""

from dataclasses import replace

from kilonova.conductor.operations.moves import facts_of, migration_of, start_move
from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflow_engine.workflow import Interrupt
from kilonova.conductor.workflows.evacuate import EVACUATE
from kilonova.db import workflows
from kilonova.db.core.transaction import Transaction
from kilonova.errors import Conflict
from kilonova.model.instance import Instance
from kilonova.model.requester import Requester
from kilonova.model.server_migration import MigrationStatus, MigrationType


class Evacuations:
    """Moves servers away from hosts that are taken for dead."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter

    def begin(
        self,
        instance: Instance,
        who: Requester,
        *,
        host: str | None = None,
        forced: bool = False,
        stops: bool = False,
    ) -> None:
        """Start to make a server anew, on ``host`` if that is given; ``forced``: whatever the rules say of it.

        ``stops``: it is off afterwards. Whatever else is under way for it walks back first, without its host.
        Raises: NotFound, UnexpectedTaskState, Conflict for a server that is being evacuated already.
        """

        def check(tx: Transaction) -> None:
            under_way = workflows.of_instance(tx.connection, instance.uuid)
            if any(row.kind == EVACUATE.kind and not row.stuck for row in under_way):
                raise Conflict(f"Instance {instance.uuid} is being evacuated already.")

        migration = migration_of(instance, MigrationType.EVACUATION, MigrationStatus.ACCEPTED, who)
        facts = replace(facts_of(instance, migration, requested=host, forced=forced), stops=stops)
        start_move(self._starter, EVACUATE, facts, instance, migration, who, check=check, why=Interrupt.EVACUATE)
