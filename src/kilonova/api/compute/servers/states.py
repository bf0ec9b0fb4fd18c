# SPDX-License-Identifier: Apache-2.0
"""Checks before an action on a server: its states, its lock, and its host."""

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
    """Raise an error if the action ``kind`` is forbidden by the server's lock or states, or by a missing ability.

    The host must have at least one of the abilities in ``needed``; None stands for those that ``NEEDED`` lists for
    ``kind``. Raises: Conflict; for a missing ability, depending on ``kind``, Unsupported, InvalidRequest or Conflict.
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
    """Raise Conflict if the server is locked, unless the caller is an administrator."""
    if instance.locked_by is not None and not ctx.may("context_is_admin"):
        raise Conflict(f"Instance {instance.uuid} is locked")


def check_migrating(ctx: Context, instance: Instance, name: str) -> None:
    """Raise Conflict if the server is locked, or if it is not migrating. ``name``: the action, for the message."""
    check_unlocked(ctx, instance)
    if instance.task_state is not TaskState.MIGRATING:
        state = instance.task_state and instance.task_state.value
        raise Conflict(f"Cannot '{name}' instance {instance.uuid} while it is in task_state {state}")


def host_is_up(ctx: Context, host: str | None) -> bool:
    """Whether the compute service of a host is up."""
    with ctx.read() as connection:
        service = services.find_by_host(connection, host or "")
    return service is not None and service.is_up
