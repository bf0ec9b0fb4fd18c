# SPDX-License-Identifier: Apache-2.0
"""Start, stop, reboot, pause, suspend a server, and their opposites."""

from collections.abc import Callable, Mapping

from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflow import Workflow
from kilonova.conductor.workflows.power import POWER, PowerFacts
from kilonova.conductor.workflows.reboot import HARD_REBOOT, REBOOT
from kilonova.conductor.workflows.stop import FORCE_STOP, STOP, StopFacts
from kilonova.db.transaction import Transaction
from kilonova.model.instance import Instance
from kilonova.model.requester import Requester

_WORKFLOWS: Mapping[str, Workflow[PowerFacts]] = {**POWER, REBOOT.kind: REBOOT, HARD_REBOOT.kind: HARD_REBOOT}


class Power:
    """Changes the power state of servers."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter

    def change(self, instance: Instance, kind: str, who: Requester) -> None:
        """Start one of these workflows, by its kind. Raises: NotFound, UnexpectedTaskState."""
        if kind == STOP.kind:
            self._starter.start(STOP, StopFacts.of(instance), instance, who)
        else:
            self._starter.start(_WORKFLOWS[kind], PowerFacts(instance.host or ""), instance, who)

    def force_stop(
        self, instance: Instance, who: Requester, write: Callable[[Transaction], object] = lambda _tx: None
    ) -> None:
        """Start to power a guest off whose server is off or paused, without asking it.

        ``write(tx)``: what belongs into the same transaction. Raises: NotFound, UnexpectedTaskState; what that raises.
        """
        self._starter.start(FORCE_STOP, StopFacts(instance.host or "", 0.0), instance, who, write)
