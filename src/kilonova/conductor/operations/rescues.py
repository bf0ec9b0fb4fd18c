# SPDX-License-Identifier: Apache-2.0
"""Rescue, unrescue, admin password and crash dump of servers."""

from dataclasses import replace
from datetime import timedelta

from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflow_engine import server_log
from kilonova.conductor.workflows.host_facts import HostFacts
from kilonova.conductor.workflows.inside_guest import CHANGE_PASSWORD, CRASH_DUMP, PasswordFacts
from kilonova.conductor.workflows.rescue import RESCUE, UNRESCUE, RescueFacts
from kilonova.db import instances
from kilonova.errors import NotFound, UnexpectedTaskState
from kilonova.identifiers import new_uuid
from kilonova.model.image import Image
from kilonova.model.image_properties import RESCUE_PROPERTIES
from kilonova.model.requester import Requester

_TOGETHER = 50


class Rescues:
    """Operations on broken servers. Each operation raises NotFound and UnexpectedTaskState."""

    def __init__(self, starter: Starter) -> None:
        self._start = starter.start
        self._database = starter.services.database

    def rescue(self, uuid: str, image: Image, admin_password: str, who: Requester) -> None:
        """Start rescuing a server: it boots from ``image``, with its own disk attached."""
        # Only the rescue properties of the image are sent to the host: an image may have many other properties.
        said = {name: str(image.properties[name]) for name in RESCUE_PROPERTIES if image.properties.get(name)}
        image = replace(image, properties=said)
        self._start(RESCUE, lambda server: RescueFacts(server.host or "", image, admin_password), uuid, who)

    def unrescue(self, uuid: str, who: Requester) -> None:
        """Start unrescuing a server: it boots from its own disk again."""
        self._start(UNRESCUE, lambda server: HostFacts(server.host or ""), uuid, who)

    def unrescue_forgotten(self, age: timedelta) -> int:
        """Start unrescuing a batch of servers that were rescued more than ``age`` ago; return their number.

        The age is measured by the database clock. Call this until it returns 0.
        """
        with self._database.read() as connection:
            due = instances.rescued_before(connection, self._database.clock.now() - age, _TOGETHER)
        return sum(self._end_rescue(instance.uuid, f"{age.total_seconds():g}") for instance in due)

    def _end_rescue(self, uuid: str, seconds: str) -> bool:
        """Unrescue a server; return False if another process or a user has already done so."""
        who = Requester(f"req-{new_uuid()}", "", "")
        try:
            self.unrescue(uuid, who)
        except (NotFound, UnexpectedTaskState):
            return False
        server_log.unrescued_by_itself(uuid, who.request_id, seconds)
        return True

    def change_password(self, uuid: str, admin_password: str, who: Requester, encrypted: str = "") -> None:
        """Start setting the administrator's password inside a server's guest.

        ``encrypted``: the password encrypted with the server's key pair. The encrypted password is stored after the
        change, and replaces the one stored before.
        """
        self._start(
            CHANGE_PASSWORD, lambda server: PasswordFacts(server.host or "", admin_password, encrypted), uuid, who
        )

    def crash_dump(self, uuid: str, who: Requester) -> None:
        """Start triggering a crash dump in a server's guest."""
        self._start(CRASH_DUMP, lambda server: HostFacts(server.host or ""), uuid, who)
