# SPDX-License-Identifier: Apache-2.0
"""What the state of a server, or of its host, says against an action."""

from collections.abc import Collection

from kilonova.api.compute.servers.abilities import require_able
from kilonova.api.http import Context
from kilonova.db import services
from kilonova.errors import Conflict
from kilonova.model.ability import Ability
from kilonova.model.instance import Instance, TaskState
from kilonova.model.needed_abilities import NEEDED
from kilonova.model.transitions import NOTES, TRANSITIONS


def check_allowed(ctx: Context, instance: Instance, kind: str, needed: Collection[Ability] | None = None) -> None:
    """Refuse an action of the table of states, naming the state of the server that stands against it, or the ability.

    ``needed``: one of these abilities will do here, where that is not what the table of them says.
    Raises: Conflict; Unsupported, InvalidRequest where the host lacks the ability and Nova answers so.
    """
    transition = TRANSITIONS[kind] if kind in TRANSITIONS else NOTES[kind]
    refusal = f"Cannot '{transition.name}' instance {instance.uuid} while it is in"
    if transition.unlocked:
        check_unlocked(ctx, instance)
    if instance.vm_state not in transition.states:
        raise Conflict(f"{refusal} vm_state {instance.vm_state.value}")
    if instance.task_state not in transition.tasks:
        raise Conflict(f"{refusal} task_state {instance.task_state and instance.task_state.value}")
    if transition.launched and instance.launched_at is None:
        raise Conflict(f"{refusal} launched_at None")
    require_able(ctx, instance, kind, transition.name, NEEDED.get(kind, ()) if needed is None else needed)


def check_unlocked(ctx: Context, instance: Instance) -> None:
    """Raise Conflict for a locked server, unless an administrator asks. Every action's lock is checked here."""
    if instance.locked_by is not None and not ctx.may("context_is_admin"):
        raise Conflict(f"Instance {instance.uuid} is locked")


def check_migrating(ctx: Context, instance: Instance, name: str) -> None:
    """Raise Conflict unless a server is being live-migrated, which is what ``name`` is about."""
    check_unlocked(ctx, instance)
    if instance.task_state is not TaskState.MIGRATING:
        state = instance.task_state and instance.task_state.value
        raise Conflict(f"Cannot '{name}' instance {instance.uuid} while it is in task_state {state}")


def host_is_up(ctx: Context, host: str | None) -> bool:
    """Tell whether the compute service of a host has been heard of lately."""
    with ctx.read() as connection:
        service = services.find_by_host(connection, host or "")
    return service is not None and service.is_up
