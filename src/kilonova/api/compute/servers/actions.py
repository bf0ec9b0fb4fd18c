# SPDX-License-Identifier: Apache-2.0
"""POST /servers/{id}/action, whose body has a single key: the name of the action.

The handlers are in other modules, each with several related actions. Source: spec COMPUTE_API §1.4.
"""

from collections.abc import Mapping
from typing import Any

from kilonova.api.compute.actions import run_action
from kilonova.api.compute.servers import (
    admin_actions,
    consoles,
    deletes,
    evacuate,
    fixed_ip_actions,
    floating_ip_actions,
    images,
    locks,
    moves,
    power,
    rebuild,
    rescues,
    security_group_actions,
    shelving,
)
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes

_FAMILIES = (
    admin_actions,
    consoles,
    images,
    deletes,
    evacuate,
    fixed_ip_actions,
    floating_ip_actions,
    locks,
    moves,
    security_group_actions,
    power,
    rebuild,
    shelving,
    rescues,
)
RULES = tuple(rule for family in _FAMILIES for rule in family.RULES)
ACTIONS: Mapping[str, Endpoint] = {name: action for family in _FAMILIES for name, action in family.ACTIONS.items()}


def act(ctx: Context, request: Request) -> Reply:
    """POST /servers/{server_id}/action."""
    return run_action(ctx, request, ACTIONS)


def _only_asks(body: Any) -> bool:
    return isinstance(body, dict) and set(body) == {"os-getConsoleOutput"}


ROUTES: Routes = {"/servers/{server_id}/action": {"POST": Endpoint(act, reads=_only_asks)}}
