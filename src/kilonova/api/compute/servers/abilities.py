# SPDX-License-Identifier: Apache-2.0
"""Refusal of actions for which the driver of the server's host lacks an ability.

The status follows Nova: 501 for actions where Nova reports a driver without the method, 400 for live migrations, 409
for all others. The message names the ability and no host, because members of projects read it.
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
    """Raise an error if the host of a server has none of the abilities in ``needed``.

    ``kind``: key of the action or question; ``name``: its name in the API. No error for a server without a host or
    hypervisor: the action itself handles that. Raises: Unsupported, InvalidRequest, Conflict.
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
    """Raise Unsupported if the host of a server cannot answer ``question`` about its guest."""
    require_able(ctx, instance, question, question, QUESTIONS[question])


def _refusal(kind: str) -> type[KilonovaError]:
    if kind in _NOT_IMPLEMENTED:
        return Unsupported
    return InvalidRequest if kind in _BAD_REQUEST else Conflict
