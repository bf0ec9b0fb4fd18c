# SPDX-License-Identifier: Apache-2.0
"""Every action of a server: where it may start, which tasks it shows, where it ends. Nothing else says so.

The API refuses by this table, the conductor writes states by it, the documentation is drawn from it.
Source: spec LIFECYCLE §5, COMPUTE_API §1.4.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kilonova.model.instance import TaskState as T
from kilonova.model.instance import VmState as S

IDLE: frozenset[T | None] = frozenset({None})
#: Whatever else is under way.
ANY_TASK: frozenset[T | None] = frozenset({None, *T})
ANY_STATE = frozenset(S) - {S.DELETED}


@dataclass(frozen=True, slots=True)
class Transition:
    """One action.

    ``name``: what the API calls it when it refuses. ``states``, ``tasks``: where it may start.
    ``shown``: the task states in the order in which a server shows them.
    ``settled``: the state afterwards, or ``settled_otherwise``, as ``remark`` says, None where there is no such;
    ``failed``: the state after a failure. None as ``settled`` or ``failed``: the state before.
    ``launched``: only a server that ran once may. ``unlocked``: a locked server refuses it to its own project.
    ``remark``: what the columns do not say, for the documentation.
    """

    name: str
    states: frozenset[S]
    tasks: frozenset[T | None] = IDLE
    shown: tuple[T, ...] = ()
    settled: S | None = None
    settled_otherwise: S | None = None
    failed: S | None = None
    launched: bool = True
    unlocked: bool = True
    remark: str = ""


_WORKING = frozenset({S.ACTIVE, S.STOPPED, S.PAUSED, S.SUSPENDED})
_REBUILDABLE = frozenset({S.ACTIVE, S.STOPPED, S.ERROR})
_MOVABLE = frozenset({S.ACTIVE, S.STOPPED})
_REBUILD = (T.REBUILDING, T.REBUILD_SPAWNING)
_RESIZE = (T.RESIZE_PREP, T.RESIZE_MIGRATING, T.RESIZE_MIGRATED, T.RESIZE_FINISH)
_SOFT_REBOOT = (T.REBOOTING, T.REBOOT_PENDING, T.REBOOT_STARTED)
_HARD_REBOOT = (T.REBOOTING_HARD, T.REBOOT_PENDING_HARD, T.REBOOT_STARTED_HARD)
#: A hard reboot ends what hangs, but no hard reboot that an agent already works on.
_HARD_REBOOT_ENDS = frozenset({None, *_SOFT_REBOOT, T.REBOOTING_HARD, T.RESUMING, T.UNPAUSING, T.PAUSING, T.SUSPENDING})


def _only(*states: S) -> frozenset[S]:
    return frozenset(states)


#: Kind of workflow → its transition.
TRANSITIONS: Mapping[str, Transition] = {
    "build": Transition(
        "create",
        _only(S.BUILDING),
        shown=(T.SCHEDULING, T.SPAWNING),
        settled=S.ACTIVE,
        failed=S.ERROR,
        launched=False,
    ),
    "delete": Transition(
        "delete",
        ANY_STATE,
        ANY_TASK,
        shown=(T.DELETING,),
        settled=S.DELETED,
        failed=S.ERROR,
        launched=False,
        remark="Ends whatever else is under way.",
    ),
    "soft-delete": Transition(
        "delete",
        ANY_STATE,
        ANY_TASK,
        shown=(T.SOFT_DELETING,),
        settled=S.SOFT_DELETED,
        remark="Instead of a delete, where reclaim_instance_interval is set and the server ran once.",
    ),
    "restore": Transition("restore", _only(S.SOFT_DELETED), shown=(T.RESTORING,), settled=S.ACTIVE),
    "force-delete": Transition(
        "forceDelete",
        ANY_STATE,
        ANY_TASK,
        shown=(T.DELETING,),
        settled=S.DELETED,
        failed=S.ERROR,
        launched=False,
        remark="A delete at once, whatever reclaim_instance_interval says.",
    ),
    "start": Transition("start", _only(S.STOPPED), shown=(T.POWERING_ON,), settled=S.ACTIVE),
    "stop": Transition("stop", _only(S.ACTIVE, S.ERROR), shown=(T.POWERING_OFF,), settled=S.STOPPED),
    "force-stop": Transition(
        "stop",
        _only(S.STOPPED, S.PAUSED),
        shown=(T.POWERING_OFF,),
        settled=S.STOPPED,
        remark="Begun by Kilonova itself, where a guest does what its server does not show.",
    ),
    "reboot": Transition(
        "reboot",
        _only(S.ACTIVE),
        shown=(*_SOFT_REBOOT, *_HARD_REBOOT[1:]),
        settled=S.ACTIVE,
        failed=S.ERROR,
        remark="Goes on as a hard one where the guest does not run. Fails into error only where it does not run "
        "afterwards.",
    ),
    "hard-reboot": Transition(
        "reboot",
        _only(S.ACTIVE, S.STOPPED, S.PAUSED, S.SUSPENDED, S.ERROR),
        _HARD_REBOOT_ENDS,
        shown=_HARD_REBOOT,
        settled=S.ACTIVE,
        failed=S.ERROR,
        remark="Fails into error only where the guest does not run afterwards.",
    ),
    "pause": Transition("pause", _only(S.ACTIVE), shown=(T.PAUSING,), settled=S.PAUSED),
    "unpause": Transition("unpause", _only(S.PAUSED), shown=(T.UNPAUSING,), settled=S.ACTIVE),
    "suspend": Transition("suspend", _only(S.ACTIVE), shown=(T.SUSPENDING,), settled=S.SUSPENDED, failed=S.ERROR),
    "resume": Transition("resume", _only(S.SUSPENDED), shown=(T.RESUMING,), settled=S.ACTIVE, failed=S.ERROR),
    "rescue": Transition(
        "rescue",
        _only(S.ACTIVE, S.STOPPED, S.ERROR),
        shown=(T.RESCUING,),
        settled=S.RESCUED,
        failed=S.ERROR,
    ),
    "unrescue": Transition("unrescue", _only(S.RESCUED), shown=(T.UNRESCUING,), settled=S.ACTIVE, failed=S.ERROR),
    "rebuild": Transition(
        "rebuild",
        _REBUILDABLE,
        shown=_REBUILD,
        settled=S.ACTIVE,
        settled_otherwise=S.STOPPED,
        failed=S.ERROR,
        remark="A server that was stopped is stopped again.",
    ),
    "evacuate": Transition(
        "evacuate",
        _REBUILDABLE,
        ANY_TASK - {T.DELETING, T.SOFT_DELETING},
        shown=_REBUILD,
        settled=S.ACTIVE,
        settled_otherwise=S.STOPPED,
        failed=S.ERROR,
        unlocked=False,
        remark="Only when the service of its host is down. A server that was stopped is stopped again; from "
        "microversion 2.95 every server is stopped.",
    ),
    "resize": Transition(
        "resize",
        _MOVABLE,
        shown=_RESIZE,
        settled=S.RESIZED,
        failed=S.ERROR,
        remark="Keeps its state when it fails before the guest was touched.",
    ),
    "migrate": Transition(
        "migrate",
        _MOVABLE,
        shown=_RESIZE,
        settled=S.RESIZED,
        failed=S.ERROR,
        remark="Keeps its state when it fails before the guest was touched.",
    ),
    "confirm-resize": Transition(
        "confirmResize",
        _only(S.RESIZED),
        settled=S.ACTIVE,
        settled_otherwise=S.STOPPED,
        failed=S.ERROR,
        remark="A server that was stopped before the resize is stopped again.",
    ),
    "revert-resize": Transition(
        "revertResize",
        _only(S.RESIZED),
        shown=(T.RESIZE_REVERTING,),
        settled=S.ACTIVE,
        settled_otherwise=S.STOPPED,
        failed=S.ERROR,
        remark="A server that was stopped before the resize is stopped again.",
    ),
    "live-migrate": Transition("os-migrateLive", _only(S.ACTIVE, S.PAUSED), shown=(T.MIGRATING,)),
    "shelve": Transition(
        "shelve",
        _WORKING,
        shown=(T.SHELVING, T.SHELVING_IMAGE_PENDING_UPLOAD, T.SHELVING_IMAGE_UPLOADING, T.SHELVING_OFFLOADING),
        settled=S.SHELVED,
        settled_otherwise=S.SHELVED_OFFLOADED,
        remark="Ends in shelved_offloaded where shelved_offload_time is 0, and shows shelving_offloading only then.",
    ),
    "shelve-offload": Transition(
        "shelveOffload", _only(S.SHELVED), shown=(T.SHELVING_OFFLOADING,), settled=S.SHELVED_OFFLOADED
    ),
    "unshelve": Transition(
        "unshelve",
        _only(S.SHELVED, S.SHELVED_OFFLOADED),
        shown=(T.UNSHELVING, T.SPAWNING, T.POWERING_ON),
        settled=S.ACTIVE,
        remark="Shows powering-on instead of spawning where it is still on its host.",
    ),
    "create-image": Transition(
        "createImage",
        _WORKING,
        shown=(T.IMAGE_SNAPSHOT_PENDING, T.IMAGE_SNAPSHOT, T.IMAGE_PENDING_UPLOAD, T.IMAGE_UPLOADING),
        unlocked=False,
    ),
    "create-backup": Transition(
        "createBackup", _WORKING, shown=(T.IMAGE_BACKUP, T.IMAGE_PENDING_UPLOAD, T.IMAGE_UPLOADING), unlocked=False
    ),
    "change-password": Transition("changePassword", _only(S.ACTIVE), shown=(T.UPDATING_PASSWORD,)),
    "crash-dump": Transition("trigger_crash_dump", _only(S.ACTIVE, S.PAUSED, S.RESCUED, S.RESIZED, S.ERROR)),
}

#: Changes of what is noted of a server: made at once, by no workflow; states and tasks stay.
NOTES: Mapping[str, Transition] = {
    "update-metadata": Transition("update metadata", _WORKING, ANY_TASK),
    "delete-metadata": Transition("delete metadata", _WORKING, ANY_TASK),
    "update-tag": Transition("update tag", _WORKING, ANY_TASK, launched=False, unlocked=False),
    "update-tags": Transition("update tags", _WORKING, ANY_TASK, launched=False, unlocked=False),
    "delete-tag": Transition("delete tag", _WORKING, ANY_TASK, launched=False, unlocked=False),
    "delete-tags": Transition("delete tags", _WORKING, ANY_TASK, launched=False, unlocked=False),
}
