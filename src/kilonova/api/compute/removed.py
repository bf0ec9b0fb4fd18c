# SPDX-License-Identifier: Apache-2.0
"""Routes of APIs that Nova has removed. The reply to every request is 410, which tells old clients of the removal."""

from collections.abc import Mapping

from kilonova.api.faults import HttpError
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version

RULES = ()


def gone(ctx: Context, request: Request) -> Reply:
    """Reply 410."""
    del request
    ctx.authorize_anyone()
    raise HttpError(410, "This API was removed from Nova and is not available any more.")


#: Path → methods.
_REMOVED: Mapping[str, str] = {
    "/os-agents": "GET POST",
    "/os-agents/{removed_id}": "PUT DELETE",
    "/os-cells": "GET POST",
    "/os-cells/capacities": "GET",
    "/os-cells/detail": "GET",
    "/os-cells/info": "GET",
    "/os-cells/sync_instances": "POST",
    "/os-cells/{removed_id}": "GET PUT DELETE",
    "/os-cells/{removed_id}/capacities": "GET",
    "/os-certificates": "POST",
    "/os-certificates/{removed_id}": "GET",
    "/os-cloudpipe": "GET POST",
    "/os-cloudpipe/{removed_id}": "PUT",
    "/os-fixed-ips/{removed_id}": "GET",
    "/os-fixed-ips/{removed_id}/action": "POST",
    "/os-floating-ip-dns": "GET",
    "/os-floating-ip-dns/{removed_id}": "PUT DELETE",
    "/os-floating-ip-dns/{removed_id}/entries/{removed_name}": "GET PUT DELETE",
    "/os-floating-ips-bulk": "GET POST",
    "/os-floating-ips-bulk/{removed_id}": "GET PUT",
    "/os-fping": "GET",
    "/os-fping/{removed_id}": "GET",
    "/os-security-group-default-rules": "GET POST",
    "/os-security-group-default-rules/{removed_id}": "GET DELETE",
    "/servers/{server_id}/consoles": "GET POST",
    "/servers/{server_id}/consoles/{removed_id}": "GET DELETE",
}
ROUTES: Routes = {
    **{path: dict.fromkeys(methods.split(), Endpoint(gone)) for path, methods in _REMOVED.items()},
    # the reply of this route is 410 up to 2.43, and 404 from 2.44 on
    "/servers/{server_id}/os-virtual-interfaces": {"GET": Endpoint(gone, until=Version(2, 43))},
}
