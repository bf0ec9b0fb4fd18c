# SPDX-License-Identifier: Apache-2.0
"""Registry of all workflows, read by the workflow engine, the operators' commands and the crash tests."""

from collections.abc import Mapping
from typing import Any

from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.conductor.workflows.batch import BATCH
from kilonova.conductor.workflows.build import BUILD
from kilonova.conductor.workflows.cache_images import CACHE_IMAGES
from kilonova.conductor.workflows.confirm_resize import CONFIRM_RESIZE
from kilonova.conductor.workflows.delete import DELETE
from kilonova.conductor.workflows.evacuate import EVACUATE
from kilonova.conductor.workflows.inside_guest import CHANGE_PASSWORD, CRASH_DUMP
from kilonova.conductor.workflows.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from kilonova.conductor.workflows.live_migrate import LIVE_MIGRATE
from kilonova.conductor.workflows.power import POWER
from kilonova.conductor.workflows.reboot import HARD_REBOOT, REBOOT
from kilonova.conductor.workflows.rebuild import REBUILD
from kilonova.conductor.workflows.rescue import RESCUE, UNRESCUE
from kilonova.conductor.workflows.resize import MIGRATE, RESIZE
from kilonova.conductor.workflows.restore import RESTORE
from kilonova.conductor.workflows.revert_resize import REVERT_RESIZE
from kilonova.conductor.workflows.shelve import SHELVE, SHELVE_OFFLOAD
from kilonova.conductor.workflows.snapshots import CREATE_BACKUP, CREATE_IMAGE
from kilonova.conductor.workflows.soft_delete import SOFT_DELETE
from kilonova.conductor.workflows.stop import FORCE_STOP, STOP
from kilonova.conductor.workflows.unshelve import UNSHELVE

_WORKFLOWS: tuple[Workflow[Any], ...] = (
    BATCH,
    BUILD,
    DELETE,
    SOFT_DELETE,
    RESTORE,
    *POWER.values(),
    STOP,
    FORCE_STOP,
    REBOOT,
    HARD_REBOOT,
    RESCUE,
    UNRESCUE,
    CHANGE_PASSWORD,
    CRASH_DUMP,
    RESIZE,
    MIGRATE,
    CONFIRM_RESIZE,
    REVERT_RESIZE,
    LIVE_MIGRATE,
    EVACUATE,
    CREATE_IMAGE,
    CREATE_BACKUP,
    CACHE_IMAGES,
    SHELVE,
    SHELVE_OFFLOAD,
    UNSHELVE,
    REBUILD,
    ATTACH_INTERFACE,
    DETACH_INTERFACE,
)
#: Kind of workflow → its declaration.
REGISTRY: Mapping[str, Workflow[Any]] = {workflow.kind: workflow for workflow in _WORKFLOWS}
