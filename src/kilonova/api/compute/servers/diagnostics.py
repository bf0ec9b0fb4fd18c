# SPDX-License-Identifier: Apache-2.0
"""Diagnostics of a server's guest, reported by its hypervisor."""

from dataclasses import asdict
from typing import Any

from kilonova.api.compute.servers.abilities import require_answer
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.model.guest_diagnostics import GuestDiagnostics
from kilonova.model.instance import Instance

_RULE, _PATH = "os_compute_api:os-server-diagnostics", "/servers/{server_id}/diagnostics"
RULES = (rule(_RULE, ADMIN, "Show diagnostics of a server", ("GET", _PATH)),)
#: Field of a disk's diagnostics → suffix of its key before 2.48, e.g. "read" for the key "vda_read". The keys are those
#: of Nova's libvirt driver.
_OF_DISKS = {
    "read_bytes": "read",
    "read_requests": "read_req",
    "write_bytes": "write",
    "write_requests": "write_req",
    "errors_count": "errors",
}
_OF_NICS = {
    f"{way}_{field}": f"{way}{name}"
    for way in ("rx", "tx")
    for field, name in (("octets", ""), ("packets", "_packets"), ("errors", "_errors"), ("drop", "_drop"))
}


def show_diagnostics(ctx: Context, request: Request) -> Reply:
    """GET /servers/{server_id}/diagnostics.  Since 2.48 the reply has the same fields for every hypervisor.

    Errors: 404; 409 unless the guest runs; 501 if the driver has no diagnostics; 503.
    """
    instance = find_server(ctx, request.path["server_id"], _RULE)
    require_answer(ctx, instance, "diagnostics")
    known = ctx.backend.conductor.operations.consoles.diagnostics(instance)
    return Reply(200, _view(known, instance) if request.version >= Version(2, 48) else _free_view(known))


def _view(known: GuestDiagnostics, instance: Instance) -> dict[str, Any]:
    """Return the reply since 2.48: the same fields for every hypervisor. Values unknown to the driver are null."""
    return {
        "state": "running",
        "driver": known.driver,
        "hypervisor": known.hypervisor,
        "hypervisor_os": known.hypervisor_os,
        "uptime": known.uptime_s,
        "config_drive": bool(instance.config_drive),
        "num_cpus": len(known.cpus),
        "num_nics": len(known.nics),
        "num_disks": len(known.disks),
        "memory_details": {"maximum": known.memory_maximum_mib, "used": known.memory_used_mib},
        "cpu_details": [{"id": cpu.id, "time": cpu.time_ns, "utilisation": cpu.utilisation} for cpu in known.cpus],
        "nic_details": [_without_device(nic) for nic in known.nics],
        "disk_details": [_without_device(disk) for disk in known.disks],
    }


def _free_view(known: GuestDiagnostics) -> dict[str, Any]:
    """Return the reply before 2.48: the fields of Nova's libvirt driver, without unknown values. Memory is in KiB."""
    view: dict[str, int | None] = {f"cpu{cpu.id}_time": cpu.time_ns for cpu in known.cpus}
    for disk in known.disks:
        view |= {f"{disk.device}_{name}": getattr(disk, field) for field, name in _OF_DISKS.items()}
    for nic in known.nics:
        view |= {f"{nic.device}_{name}": getattr(nic, field) for field, name in _OF_NICS.items()}
    for name, mib in (("memory", known.memory_maximum_mib), ("memory-actual", known.memory_used_mib)):
        view[name] = None if mib is None else mib * 1024
    return {name: value for name, value in view.items() if value is not None}


def _without_device(part: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(part).items() if name != "device"}


ROUTES: Routes = {_PATH: {"GET": Endpoint(show_diagnostics, query=queries.NONE)}}
