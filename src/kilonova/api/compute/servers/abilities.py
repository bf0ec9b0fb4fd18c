# SPDX-License-Identifier: Apache-2.0
"""What the host of a server says against an action: its driver lacks the ability.

The refusal is what Nova's API has for the action: 501 where it answers so for a driver without the method, 400 for a
live migration that hypervisors rule out, and 409 otherwise, as for operations that a kind of server does not support.
It names the ability and no host: tenants read it.
"""

from collections.abc import Collection

from kilonova.api.http import Context
from kilonova.db import compute_nodes
from kilonova.errors import Conflict, InvalidRequest, KilonovaError, Unsupported
from kilonova.model.ability import Ability
from kilonova.model.instance import Instance
from kilonova.model.needed_abilities import QUESTIONS

_NOT_IMPLEMENTED = frozenset({"pause", "unpause", "rescue", "unrescue", "change-password", *QUESTIONS})
_BAD_REQUEST = frozenset({"live-migrate"})


def require_able(ctx: Context, instance: Instance, kind: str, name: str, needed: Collection[Ability]) -> None:
    """Refuse an action where the host of a server has none of the abilities of which it needs one.

    ``kind``: of the action, or what is asked; ``name``: what the API calls it. A server without a host, or on one
    without a hypervisor, is left to what the action itself finds. Raises: Unsupported, InvalidRequest, Conflict.
    """
    if not needed or instance.host is None:
        return
    with ctx.read() as connection:
        capabilities = compute_nodes.find_capabilities(connection, instance.host, instance.node or instance.host)
    if capabilities is None or any(capabilities.can(ability) for ability in needed):
        return
    lacking = " and ".join(sorted(needed))
    raise _refusal(kind)(f"Cannot '{name}' instance {instance.uuid}: its hypervisor lacks the ability {lacking}.")


def require_answer(ctx: Context, instance: Instance, question: str) -> None:
    """Refuse a question about the guest of a server that its host cannot answer. Raises: Unsupported."""
    require_able(ctx, instance, question, question, QUESTIONS[question])


def _refusal(kind: str) -> type[KilonovaError]:
    if kind in _NOT_IMPLEMENTED:
        return Unsupported
    return InvalidRequest if kind in _BAD_REQUEST else Conflict
