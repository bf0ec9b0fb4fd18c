# SPDX-License-Identifier: Apache-2.0
"""Refusal of actions on a server whose hypervisor driver lacks the needed ability.

The status is that of Nova: 501 for actions where Nova reports that a driver does not implement a method, 400 for live
migrations and new interfaces, 409 for all other actions. The message does not name the host, because users may not see
names of hosts.
"""

from collections.abc import Collection

from kilonova.api.http import Context
from kilonova.db import compute_nodes
from kilonova.errors import Conflict, InvalidRequest, KilonovaError, Unsupported
from kilonova.model.ability import Ability
from kilonova.model.instance import Instance
from kilonova.model.needed_abilities import QUESTIONS

_NOT_IMPLEMENTED = frozenset(
    {"pause", "unpause", "rescue", "unrescue", "change-password", "detach-interface", *QUESTIONS}
)
_BAD_REQUEST = frozenset({"live-migrate", "attach-interface"})


def require_able(ctx: Context, instance: Instance, kind: str, name: str, needed: Collection[Ability]) -> None:
    """Raise an error if the host of a server has none of the abilities in ``needed``.

    ``kind``: key of the action, or of the requested report of the hypervisor, such as "diagnostics". ``name``: the name
    of the action or report in the API. A server without a host or hypervisor passes this check, because the action
    itself handles that case. Raises: Unsupported, InvalidRequest, Conflict.
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
    """Raise Unsupported if the driver of a server's host cannot report ``question``, e.g. "diagnostics"."""
    require_able(ctx, instance, question, question, QUESTIONS[question])


def _refusal(kind: str) -> type[KilonovaError]:
    if kind in _NOT_IMPLEMENTED:
        return Unsupported
    return InvalidRequest if kind in _BAD_REQUEST else Conflict
