# SPDX-License-Identifier: Apache-2.0
"""What the driver of a server's present host must be able to do for each action of the table of states.

The API refuses by this, and the documentation is drawn from it. What a move needs of its destination is a rule of the
scheduler (``scheduler/engine/move_rules.py``).
"""

from collections.abc import Mapping

from kilonova.model.ability import Ability


def _one(ability: Ability) -> frozenset[Ability]:
    return frozenset({ability})


#: Kind of workflow → one of these will do.
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
    # Where servers may stay on their host; elsewhere a resize needs what a migration does.
    "resize": frozenset({Ability.COLD_MIGRATE, Ability.RESIZE_SAME_HOST}),
    "migrate": _one(Ability.COLD_MIGRATE),
    "live-migrate": _one(Ability.LIVE_MIGRATE),
    "shelve": _one(Ability.SNAPSHOT),
    "create-image": _one(Ability.SNAPSHOT),
    "create-backup": _one(Ability.SNAPSHOT),
    "change-password": _one(Ability.ADMIN_PASSWORD),
    "crash-dump": _one(Ability.CRASH_DUMP),
}
#: What every driver can do: make, remove, start and stop guests.
CORE = frozenset(
    {"build", "delete", "soft-delete", "force-delete", "restore", "start", "stop", "force-stop", "shelve-offload"}
)
#: What is not asked of the present host: there is none, it is down, or it has moved the guest already.
NOT_ASKED = frozenset({"unshelve", "evacuate", "confirm-resize", "revert-resize"})
#: What is asked about a guest → what its host must be able to do.
QUESTIONS: Mapping[str, frozenset[Ability]] = {
    "os-getConsoleOutput": _one(Ability.CONSOLE_OUTPUT),
    "remote-consoles": _one(Ability.CONSOLES),
    "diagnostics": _one(Ability.DIAGNOSTICS),
}
