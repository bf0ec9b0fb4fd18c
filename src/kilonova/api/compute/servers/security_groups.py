# SPDX-License-Identifier: Apache-2.0
"""Route of the security groups of a server: those of its ports. Without a network service, the list is empty."""

from kilonova.api.compute.network_service import token_of
from kilonova.api.compute.security_group_views import groups_view
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.policy import PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.network.security_groups import read_group

_RULE, _ALL = "os_compute_api:os-security-groups:list", "/servers/{server_id}/os-security-groups"
RULES = (rule(_RULE, PROJECT_READER_OR_ADMIN, "List the security groups of a server", ("GET", _ALL)),)


def list_groups(ctx: Context, request: Request) -> Reply:
    """GET /servers/{server_id}/os-security-groups.  Errors: 404 for an unknown server.

    As in Nova, a group that two ports have is listed twice.
    """
    instance = find_server(ctx, request.path["server_id"], _RULE)
    client = ctx.backend.network
    if client is None:
        return Reply(200, {"security_groups": []})
    token = token_of(ctx)
    ports = client.list("ports", token=token, device_id=instance.uuid, fields=("id", "security_groups"))
    ids = [group for port in ports for group in port.get("security_groups", ())]
    known = {each["id"]: each for each in client.list("security-groups", token=token, id=sorted({*ids}))} if ids else {}
    found = [read_group(known[each]) for each in ids if each in known]
    found.sort(key=lambda group: (group.project_id, group.name))
    return Reply(200, {"security_groups": groups_view(client, found, token=token)})


ROUTES: Routes = {_ALL: {"GET": Endpoint(list_groups, query=queries.NONE)}}
