# SPDX-License-Identifier: Apache-2.0
"""What helps with a server that does not work: rescue, a new password, a crash dump."""

from dataclasses import replace

from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflows.inside_guest import CHANGE_PASSWORD, CRASH_DUMP, DumpFacts, PasswordFacts
from kilonova.conductor.workflows.rescue import RESCUE, UNRESCUE, RescueFacts, UnrescueFacts
from kilonova.model.image import Image
from kilonova.model.instance import Instance
from kilonova.model.requester import Requester


class Rescues:
    """Each raises NotFound and UnexpectedTaskState."""

    def __init__(self, starter: Starter) -> None:
        self._start = starter.start

    def rescue(self, instance: Instance, image: Image, admin_password: str, who: Requester) -> None:
        """Start to have a server run from an image, with its own disk beside it."""
        # Properties are of no use to the host, and may be many.
        facts = RescueFacts(instance.host or "", replace(image, properties={}), admin_password)
        self._start(RESCUE, facts, instance, who)

    def unrescue(self, instance: Instance, who: Requester) -> None:
        """Start to have a server run from its own disk again."""
        self._start(UNRESCUE, UnrescueFacts(instance.host or ""), instance, who)

    def change_password(self, instance: Instance, admin_password: str, who: Requester) -> None:
        """Start to set the password of the administrator inside a server's guest."""
        self._start(CHANGE_PASSWORD, PasswordFacts(instance.host or "", admin_password), instance, who)

    def crash_dump(self, instance: Instance, who: Requester) -> None:
        """Start to have a server's guest write a crash dump."""
        self._start(CRASH_DUMP, DumpFacts(instance.host or ""), instance, who)
