# SPDX-License-Identifier: Apache-2.0
"""Abilities that the driver of a server's current host needs for each action in the table of transitions.

The API refuses an action if the host does not have the abilities in this table. The documentation is generated from the
table, too. A scheduler rule checks the destination of a move (``scheduler/engine/move_rules.py``).
"""

from collections.abc import Mapping

from kilonova.model.ability import Ability


def _one(ability: Ability) -> frozenset[Ability]:
    return frozenset({ability})


#: Kind of workflow → abilities. The host needs one of them.
NEEDED: Mapping[str, frozenset[Ability]] = {
    "reboot": _one(Ability.REBOOT),
    "hard-reboot": _one(Ability.REBOOT),
    "pause": _one(Ability.PAUSE),
    "unpause": _one(Ability.PAUSE),
    "suspend": _one(Ability.SUSPEND),
    "resume": _one(Ability.SUSPEND),
    "rescue": _one(Ability.RESCUE),
    "unrescue": _one(Ability.RESCUE),
    "rebuild": _one(Ability.REBUILD),
    # RESIZE_SAME_HOST is sufficient only if servers may be resized on their current host (allow_resize_to_same_host).
    "resize": frozenset({Ability.COLD_MIGRATE, Ability.RESIZE_SAME_HOST}),
    "migrate": _one(Ability.COLD_MIGRATE),
    "live-migrate": _one(Ability.LIVE_MIGRATE),
    "shelve": _one(Ability.SNAPSHOT),
    "create-image": _one(Ability.SNAPSHOT),
    "create-backup": _one(Ability.SNAPSHOT),
    "change-password": _one(Ability.ADMIN_PASSWORD),
    "crash-dump": _one(Ability.CRASH_DUMP),
    "attach-interface": _one(Ability.ATTACH_INTERFACE),
    "detach-interface": _one(Ability.ATTACH_INTERFACE),
}
#: Kinds of workflow that every driver supports: create, remove, start and stop guests.
CORE = frozenset(
    {"build", "delete", "soft-delete", "force-delete", "restore", "start", "stop", "force-stop", "shelve-offload"}
)
#: Kinds of workflow that need no ability of the server's current host: there is no such host, it is down, or it has
#: already moved the guest.
NOT_ASKED = frozenset({"unshelve", "evacuate", "confirm-resize", "revert-resize"})
#: API name of a query about a guest → abilities. The host needs one of them.
QUESTIONS: Mapping[str, frozenset[Ability]] = {
    "os-getConsoleOutput": _one(Ability.CONSOLE_OUTPUT),
    "remote-consoles": _one(Ability.CONSOLES),
    "diagnostics": _one(Ability.DIAGNOSTICS),
}
