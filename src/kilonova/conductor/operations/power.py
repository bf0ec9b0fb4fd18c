# SPDX-License-Identifier: Apache-2.0
"""Start, stop, reboot, pause, suspend a server, and their opposites."""

from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflows.power import POWER, PowerFacts
from kilonova.model.instance import Instance
from kilonova.model.requester import Requester


class Power:
    """Changes the power state of servers."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter

    def change(self, instance: Instance, kind: str, who: Requester) -> None:
        """Start one of the workflows in ``POWER``. Raises: NotFound, UnexpectedTaskState."""
        workflow = POWER[kind]
        self._starter.start(workflow, PowerFacts(instance.host or ""), instance, who)
