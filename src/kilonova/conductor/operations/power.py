# SPDX-License-Identifier: Apache-2.0
"""Start, stop, reboot, pause, unpause, suspend and resume of servers."""

import logging
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from kilonova.conductor.operations.starting import Starter, WithServer, nothing
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.conductor.workflows.host_facts import HostFacts, NetworkedHostFacts
from kilonova.conductor.workflows.power import POWER
from kilonova.conductor.workflows.reboot import HARD_REBOOT, REBOOT
from kilonova.conductor.workflows.stop import FORCE_STOP, STOP, StopFacts
from kilonova.db import hanging_reboots
from kilonova.db.core.transaction import Transaction
from kilonova.errors import KilonovaError
from kilonova.identifiers import new_uuid
from kilonova.model.instance import Instance
from kilonova.model.requester import Requester

LOG = logging.getLogger(__name__)
_ENDED_TOGETHER = 100
_WORKFLOWS: Mapping[str, Workflow[Any]] = {
    **POWER,
    **{workflow.kind: workflow for workflow in (STOP, REBOOT, HARD_REBOOT)},
}


class Power:
    """Operations that change the power state of servers."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter

    def change(self, uuid: str, kind: str, who: Requester) -> None:
        """Start a power workflow. ``kind``: kind of the workflow. Raises: NotFound, UnexpectedTaskState."""
        self._starter.start(_WORKFLOWS[kind], partial(_facts, kind), uuid, who)

    def repair(
        self,
        uuid: str,
        kind: str,
        who: Requester,
        only_if: WithServer = nothing,
        write: WithServer = nothing,
    ) -> None:
        """Start a workflow for a server whose guest has an unexpected power state.

        ``kind``: kind of a power workflow, or ``force-stop``. ``only_if``, ``write``: as in :meth:`Starter.start`.
        Raises: NotFound, UnexpectedTaskState; errors of ``only_if`` and ``write``.
        """
        workflow = FORCE_STOP if kind == FORCE_STOP.kind else _WORKFLOWS[kind]
        self._starter.start(workflow, partial(_facts, kind), uuid, who, write, only_if=only_if)

    def end_hanging_reboots(self, timeout: timedelta) -> int:
        """Hard-reboot a batch of servers whose soft reboot has not progressed for ``timeout``; return their number.

        The time is measured by the database clock. Call this until it returns 0.
        """
        database = self._starter.services.database
        with database.read() as connection:
            hanging = hanging_reboots.since(connection, database.clock.now() - timeout, _ENDED_TOGETHER)
        begun = 0
        for server in hanging:
            who = Requester(f"req-{new_uuid()}", "", "")
            try:
                self.repair(server.uuid, HARD_REBOOT.kind, who, partial(_require_unchanged, server))
            # Not an error here: the soft reboot may have ended, or another request may have started a hard reboot.
            except KilonovaError as error:
                LOG.info("Server %s is not hard-rebooted: %s [%s]", server.uuid, error.message, who.request_id)
            else:
                begun += 1
                LOG.warning("Server %s hangs in a soft reboot; a hard reboot starts [%s]", server.uuid, who.request_id)
        return begun


def _require_unchanged(seen: Instance, _tx: Transaction, server: Instance) -> None:
    hanging_reboots.require_unchanged(server, seen)


def _facts(kind: str, instance: Instance) -> HostFacts | NetworkedHostFacts | StopFacts:
    if kind == STOP.kind:
        return StopFacts.of(instance)
    if kind in {REBOOT.kind, HARD_REBOOT.kind}:
        return NetworkedHostFacts(instance.host or "")
    return StopFacts(instance.host or "", 0.0) if kind == FORCE_STOP.kind else HostFacts(instance.host or "")
