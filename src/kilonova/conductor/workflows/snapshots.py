# SPDX-License-Identifier: Apache-2.0
"""Images and backups of servers: save the disk of the guest as an image; the server's state does not change.

::

    register ──▶ snapshot ──▶ offer ──▶ upload ──▶ done            a backup: ──▶ rotate ──▶ done
"""

import logging

from kilonova.conductor.workflow_engine.effects import Completed, Effect
from kilonova.conductor.workflow_engine.run import Run
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.conductor.workflows import snapshot_steps
from kilonova.conductor.workflows.endings import as_before, failed
from kilonova.db import unwanted_images
from kilonova.errors import Unavailable
from kilonova.model.instance import TaskState
from kilonova.model.transitions import TRANSITIONS
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
    """Facts of a snapshot. ``host``: host of the guest. ``rotation``: number of backups to keep, for a backup.

    ``brought``: the image has its data.
    """

    host: str
    image_id: str
    rotation: int = 0
    brought: bool = False


def _rotate(services: Services, run: Run[SnapshotFacts]) -> Effect:
    """Record the oldest backups as unwanted. If Glance is unavailable, the rotation is skipped."""
    try:
        backups = services.images.backups_like(run.facts.image_id)
    except Unavailable as error:
        LOG.warning("Backups of server %s are not rotated: %s", run.instance_uuid, error.message)
        return Completed()
    old = backups[run.facts.rotation :]
    return Completed(write=lambda tx, _run: unwanted_images.note(tx, old))


CREATE_IMAGE: Workflow[SnapshotFacts] = Workflow(
    "create-image",
    SnapshotFacts,
    snapshot_steps.steps(
        "compute_snapshot_instance",
        taken=TaskState.IMAGE_SNAPSHOT,
        offered=TaskState.IMAGE_PENDING_UPLOAD,
        uploading=TaskState.IMAGE_UPLOADING,
    ),
    TRANSITIONS["create-image"],
    settle=as_before,
    unwound=failed,
    action="createImage",
    done="became an image",
)
CREATE_BACKUP: Workflow[SnapshotFacts] = Workflow(
    "create-backup",
    SnapshotFacts,
    (
        *snapshot_steps.steps(
            "compute_backup_instance",
            taken=None,
            offered=TaskState.IMAGE_PENDING_UPLOAD,
            uploading=TaskState.IMAGE_UPLOADING,
        ),
        one_way("rotate", _rotate, blocking=True),
    ),
    TRANSITIONS["create-backup"],
    settle=as_before,
    unwound=failed,
    action="createBackup",
    done="was backed up",
    point_of_no_return="upload",
)
