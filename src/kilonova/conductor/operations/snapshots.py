# SPDX-License-Identifier: Apache-2.0
"""Images and backups of servers."""

from collections.abc import Callable

from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflows.snapshots import CREATE_BACKUP, CREATE_IMAGE, SnapshotFacts
from kilonova.model.instance import Instance
from kilonova.model.requester import Requester


class Snapshots:
    """Creates images from the disks of servers.

    ``register`` creates the image in Glance with the user's token, after the workflow is journalled, so that a crash
    leaves no orphan image. An error of ``register`` ends the operation.
    """

    def __init__(self, starter: Starter) -> None:
        self._starter = starter

    def create_image(self, uuid: str, image_id: str, who: Requester, register: Callable[[], object]) -> None:
        """Start creating an image. Raises: NotFound, UnexpectedTaskState, ConcurrentUpdate; errors of ``register``."""

        def facts_of(server: Instance) -> SnapshotFacts:
            return SnapshotFacts(server.host or "", image_id)

        self._starter.start_with_image(CREATE_IMAGE, facts_of, uuid, image_id, who, register)

    def create_backup(
        self, uuid: str, image_id: str, rotation: int, who: Requester, register: Callable[[], object]
    ) -> None:
        """Start creating a backup; ``rotation`` backups of its type are kept. Raises: as :meth:`create_image`."""

        def facts_of(server: Instance) -> SnapshotFacts:
            return SnapshotFacts(server.host or "", image_id, rotation)

        self._starter.start_with_image(CREATE_BACKUP, facts_of, uuid, image_id, who, register)
