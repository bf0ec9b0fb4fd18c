# SPDX-License-Identifier: Apache-2.0
"""Creation of images and backups from the disks of servers."""

from collections.abc import Callable

from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflows.snapshots import CREATE_BACKUP, CREATE_IMAGE, SnapshotFacts
from kilonova.model.instance import Instance
from kilonova.model.requester import Requester


class Snapshots:
    """Operations that create images from the disks of servers.

    The parameter ``register`` of the operations is a function that creates the image in Glance with the user's token.
    It is called after the workflow is journalled, so that no orphan image remains after a crash. If ``register``
    raises, the operation fails.
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
        """Start creating a backup. ``rotation``: number of backups of the same type to keep, including this one.

        Raises: as :meth:`create_image`.
        """

        def facts_of(server: Instance) -> SnapshotFacts:
            return SnapshotFacts(server.host or "", image_id, rotation)

        self._starter.start_with_image(CREATE_BACKUP, facts_of, uuid, image_id, who, register)
