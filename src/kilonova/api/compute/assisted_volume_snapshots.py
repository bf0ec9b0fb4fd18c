# SPDX-License-Identifier: Apache-2.0
"""Assisted volume snapshots: snapshots that a compute host makes for the volume service.

Servers of Kilonova have no volumes, so every request is refused.
"""

import msgspec

from kilonova.api.compute.schemas import assisted_volume_snapshots as schemas
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.policy import SERVICE_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.api.validation import invalid_parameter
from kilonova.decoding import decode
from kilonova.errors import NotFound

_P, _ALL = "os_compute_api:os-assisted-volume-snapshots", "/os-assisted-volume-snapshots"
_ONE = f"{_ALL}/{{snapshot_id}}"
RULES = (
    rule(f"{_P}:create", SERVICE_OR_ADMIN, "Create an assisted volume snapshot", ("POST", _ALL)),
    rule(f"{_P}:delete", SERVICE_OR_ADMIN, "Delete an assisted volume snapshot", ("DELETE", _ONE)),
)


class _DeleteInfo(msgspec.Struct):
    """The ``delete_info`` that a volume service sends when it deletes a snapshot. Only the volume id is read."""

    volume_id: str


def create_snapshot(ctx: Context, request: Request) -> Reply:
    """POST /os-assisted-volume-snapshots.  Errors: 400; 404, because no server has the volume."""
    ctx.authorize(f"{_P}:create")
    raise _on_no_server(request.body["snapshot"]["volume_id"])


def delete_snapshot(ctx: Context, request: Request) -> Reply:
    """DELETE …/{snapshot_id}?delete_info={"volume_id": …}.  Errors: 400; 404, because no server has the volume."""
    ctx.authorize(f"{_P}:delete")
    text = request.param("delete_info")
    try:
        info = decode(text or "", _DeleteInfo)
    except msgspec.DecodeError:
        raise invalid_parameter("delete_info", text, "A JSON object with volume_id is expected.") from None
    raise _on_no_server(info.volume_id)


def _on_no_server(volume_id: str) -> NotFound:
    return NotFound(f"No server has volume {volume_id:.255}.", volume_id=volume_id)


ROUTES: Routes = {
    _ALL: {"POST": Endpoint(create_snapshot, body=schemas.CREATE, query=queries.NONE)},
    _ONE: {"DELETE": Endpoint(delete_snapshot, query=schemas.DELETE)},
}
