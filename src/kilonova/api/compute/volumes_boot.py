# SPDX-License-Identifier: Apache-2.0
"""Servers under the path that once meant booting from a volume, up to 2.102. It is about any server."""

from collections.abc import Mapping
from dataclasses import replace

from kilonova.api.compute import server_actions, servers
from kilonova.api.compute.actions import run_action
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version

RULES = ()
_LAST = Version(2, 102)


def _until_then(endpoints: Mapping[str, Endpoint]) -> Mapping[str, Endpoint]:
    return {name: replace(each, until=min(each.until or _LAST, _LAST)) for name, each in endpoints.items()}


ACTIONS = _until_then(server_actions.ACTIONS)


def act(ctx: Context, request: Request) -> Reply:
    """POST /os-volumes_boot/{server_id}/action.  Until 2.102."""
    return run_action(ctx, request, ACTIONS)


ROUTES: Routes = {
    **{
        template.replace("/servers", "/os-volumes_boot", 1): _until_then(endpoints)
        for template, endpoints in servers.ROUTES.items()
    },
    "/os-volumes_boot/{server_id}/action": {"POST": Endpoint(act, until=_LAST)},
}
