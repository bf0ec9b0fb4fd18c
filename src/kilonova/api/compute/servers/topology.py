# SPDX-License-Identifier: Apache-2.0
"""NUMA topology of a server: its virtual cells, and, for administrators only, the cells and CPUs of the host."""

from typing import Any

from kilonova.api.compute.servers.servers import find_server
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.db import host_devices
from kilonova.model.guest_devices import GuestCell

_P, _PATH = "compute:server:topology", "/servers/{server_id}/topology"
RULES = (
    rule(f"{_P}:index", PROJECT_READER_OR_ADMIN, "Show the NUMA cells of a server", ("GET", _PATH)),
    rule(f"{_P}:host:index", ADMIN, "Show the host's NUMA cells of a server", ("GET", _PATH)),
)


def show_topology(ctx: Context, request: Request) -> Reply:
    """GET /servers/{server_id}/topology.  Since: 2.78.  Errors: 404."""
    instance = find_server(ctx, request.path["server_id"], f"{_P}:index")
    with ctx.read() as connection:
        cells = host_devices.of_guest(connection, instance.uuid).cells
    sees_host = ctx.may(f"{_P}:host:index", project_id=instance.project_id)
    page_size = next((cell.page_size_kib for cell in reversed(cells) if cell.page_size_kib), None)
    return Reply(200, {"nodes": [_view(cell, sees_host=sees_host) for cell in cells], "pagesize_kb": page_size})


def _view(cell: GuestCell, *, sees_host: bool) -> dict[str, Any]:
    view: dict[str, Any] = {
        "vcpu_set": sorted(cell.vcpus),
        "siblings": [],  # guests have no CPU thread topology
        "memory_mb": cell.memory_mib,
    }
    if sees_host:
        view |= {"host_node": cell.host_cell, "cpu_pinning": {str(vcpu): cpu for vcpu, cpu in cell.pinning}}
    return view


ROUTES: Routes = {_PATH: {"GET": Endpoint(show_topology, query=queries.NONE, since=Version(2, 78))}}
