# SPDX-License-Identifier: Apache-2.0
"""State machine of servers: the allowed start states, the shown task states and the end states of each action.

This table is the only definition: the API uses it to refuse actions, the conductor uses it to set states, and the
documentation is generated from it.
Source: spec LIFECYCLE §5, COMPUTE_API §1.4.
"""

from collections.abc import Mapping

from kilonova.model.instance import TaskState as T
from kilonova.model.instance import VmState as S
from kilonova.records import dataclass

IDLE: frozenset[T | None] = frozenset({None})
#: All task states, and None for a server without a task.
ANY_TASK: frozenset[T | None] = frozenset({None, *T})
ANY_STATE = frozenset(S) - {S.DELETED}


@dataclass(frozen=True, slots=True)
class Transition:
    """The transition of one action.

    ``name``: name of the action in API errors. ``states``, ``tasks``: vm_states and task_states in which the action may
    start. ``shown``: task_states of the server during the action, in order.
    ``settled``: vm_state after success, None if unchanged. ``settled_otherwise``: another vm_state after success, in
    the case that ``remark`` describes, or None. ``failed``: vm_state after a failure, None if unchanged.
    ``launched``: whether the server must have been launched once. ``unlocked``: whether the action is refused to users
    of the server's project while the server is locked. ``remark``: additional text for the documentation.
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
SOFT_REBOOT = (T.REBOOTING, T.REBOOT_PENDING, T.REBOOT_STARTED)
HARD_REBOOT = (T.REBOOTING_HARD, T.REBOOT_PENDING_HARD, T.REBOOT_STARTED_HARD)
#: Task states in which a hard reboot may start. The hard reboot interrupts the running operation, which may hang, or an
#: earlier hard reboot that has not yet reached the agent.
_HARD_REBOOT_ENDS = frozenset({None, *SOFT_REBOOT, T.REBOOTING_HARD, T.RESUMING, T.UNPAUSING, T.PAUSING, T.SUSPENDING})


def _only(*states: S) -> frozenset[S]:
    return frozenset(states)


#: Kind of workflow → the transition of its action.
TRANSITIONS: Mapping[str, Transition] = {
    "build": Transition(
        "create",
        _only(S.BUILDING),
        shown=(T.SCHEDULING, T.NETWORKING, T.SPAWNING),
        settled=S.ACTIVE,
        failed=S.ERROR,
        launched=False,
        remark="Shows networking only if the server has networks.",
    ),
    "delete": Transition(
        "delete",
        ANY_STATE,
        ANY_TASK,
        shown=(T.DELETING,),
        settled=S.DELETED,
        failed=S.ERROR,
        launched=False,
        remark="Interrupts every other operation on the server.",
    ),
    "soft-delete": Transition(
        "delete",
        ANY_STATE,
        ANY_TASK,
        shown=(T.SOFT_DELETING,),
        settled=S.SOFT_DELETED,
        remark="Replaces delete if reclaim_instance_interval is set and the server was launched once.",
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
        remark="Deletes immediately, regardless of reclaim_instance_interval.",
    ),
    "start": Transition("start", _only(S.STOPPED), shown=(T.POWERING_ON,), settled=S.ACTIVE),
    "stop": Transition("stop", _only(S.ACTIVE, S.ERROR), shown=(T.POWERING_OFF,), settled=S.STOPPED),
    "force-stop": Transition(
        "stop",
        _only(S.STOPPED, S.PAUSED),
        shown=(T.POWERING_OFF,),
        settled=S.STOPPED,
        remark="Started by Kilonova if the guest's power state contradicts the server's state.",
    ),
    "reboot": Transition(
        "reboot",
        _only(S.ACTIVE),
        shown=(*SOFT_REBOOT, *HARD_REBOOT[1:]),
        settled=S.ACTIVE,
        failed=S.ERROR,
        remark="Continues as a hard reboot if the guest does not run. A failure leads to error only if the guest does "
        "not run afterwards.",
    ),
    "hard-reboot": Transition(
        "reboot",
        _only(S.ACTIVE, S.STOPPED, S.PAUSED, S.SUSPENDED, S.ERROR),
        _HARD_REBOOT_ENDS,
        shown=HARD_REBOOT,
        settled=S.ACTIVE,
        failed=S.ERROR,
        remark="A failure leads to error only if the guest does not run afterwards.",
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
        remark="A server that was stopped ends stopped.",
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
        remark="Only while the service of its host is down. A server that was stopped ends stopped; since "
        "microversion 2.95 every server ends stopped.",
    ),
    "resize": Transition(
        "resize",
        _MOVABLE,
        shown=_RESIZE,
        settled=S.RESIZED,
        failed=S.ERROR,
        remark="The server keeps its state if the move fails before the guest changes, or because a host went away.",
    ),
    "migrate": Transition(
        "migrate",
        _MOVABLE,
        shown=_RESIZE,
        settled=S.RESIZED,
        failed=S.ERROR,
        remark="The server keeps its state if the move fails before the guest changes, or because a host went away.",
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
        remark="If shelved_offload_time is 0, shows shelving_offloading and ends in shelved_offloaded.",
    ),
    "shelve-offload": Transition(
        "shelveOffload", _only(S.SHELVED), shown=(T.SHELVING_OFFLOADING,), settled=S.SHELVED_OFFLOADED
    ),
    "unshelve": Transition(
        "unshelve",
        _only(S.SHELVED, S.SHELVED_OFFLOADED),
        shown=(T.UNSHELVING, T.SPAWNING, T.POWERING_ON),
        settled=S.ACTIVE,
        remark="Shows powering-on instead of spawning if the server is still on its host.",
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
    "attach-interface": Transition("attach_interface", _only(S.ACTIVE, S.PAUSED, S.STOPPED)),
    # A paused guest cannot release a device, so a detach would fail on its host.
    "detach-interface": Transition("detach_interface", _only(S.ACTIVE, S.STOPPED)),
    "crash-dump": Transition("trigger_crash_dump", _only(S.ACTIVE, S.PAUSED, S.RESCUED, S.RESIZED, S.ERROR)),
}

#: Changes of metadata and tags. They need no workflow and do not change vm_state or task_state.
NOTES: Mapping[str, Transition] = {
    "update-metadata": Transition("update metadata", _WORKING, ANY_TASK),
    "delete-metadata": Transition("delete metadata", _WORKING, ANY_TASK),
    "update-tag": Transition("update tag", _WORKING, ANY_TASK, launched=False, unlocked=False),
    "update-tags": Transition("update tags", _WORKING, ANY_TASK, launched=False, unlocked=False),
    "delete-tag": Transition("delete tag", _WORKING, ANY_TASK, launched=False, unlocked=False),
    "delete-tags": Transition("delete tags", _WORKING, ANY_TASK, launched=False, unlocked=False),
}
