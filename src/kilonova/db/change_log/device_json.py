# SPDX-License-Identifier: Apache-2.0
"""Conversion of NUMA cells, PCI pools and their use by servers to JSON data: for rows, change log and decisions."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from kilonova.db.change_log.changes import LoggedCell, LoggedCellUse, LoggedDevices, LoggedPool
from kilonova.model.cpu_set import cpus_text, parse_cpus
from kilonova.model.host_devices import DeviceShare, HostDevices
from kilonova.model.numa import CellShare, HostCell, Pages, Ratios
from kilonova.model.pci import CardFacts, PciPool


def as_logged(devices: HostDevices) -> LoggedDevices:
    """Return cells and pools in the form of the change log, without PCI addresses. Equal devices give equal values."""
    return LoggedDevices(
        [logged_cell(cell.id, cell_facts(cell), cell_use(cell)) for cell in devices.cells],
        [logged_pool(pool.number, pool_facts(pool), pool.total, pool.used) for pool in devices.pools],
    )


def devices_from_logged(value: LoggedDevices) -> HostDevices:
    """Parse the result of :func:`as_logged`."""
    return HostDevices(
        tuple(read_cell(cell.id, asdict(cell), asdict(cell.used)) for cell in value.cells),
        tuple(read_pool(pool.number, asdict(pool), pool.total, pool.used) for pool in value.pools),
    )


def logged_cell(number: int, facts: Mapping[str, Any], used: Mapping[str, Any]) -> LoggedCell:
    return LoggedCell(id=number, used=LoggedCellUse(**_known(LoggedCellUse, used)), **_known(LoggedCell, facts))


def logged_pool(number: int, facts: Mapping[str, Any], total: int, used: int) -> LoggedPool:
    return LoggedPool(number=number, total=total, used=used, **_known(LoggedPool, facts))


def _known(kind: type[Struct], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of ``facts`` that are fields of ``kind``: a guard row also has columns that mirrors do not
    need.
    """
    return {name: value for name, value in facts.items() if name in kind.__struct_fields__}


def share_as_json(share: DeviceShare) -> dict[str, Any]:
    """Return the NUMA cells and PCI devices that a server uses, as JSON data."""
    cells = [
        {
            "cell": part.cell,
            "memory_mib": part.memory_mib,
            "cpus": part.cpus,
            "pinned": cpus_text(part.pinned),
            "pinning": [list(pair) for pair in part.pinning],
            "emulator": cpus_text(part.emulator),
            "page_size_kib": part.page_size_kib,
            "pages": part.pages,
            "firm_memory": part.firm_memory,
            "firm_pages": part.firm_pages,
            "shares_cpus": part.shares_cpus,
            "vcpus": cpus_text(part.vcpus),
        }
        for part in share.cells
    ]
    ratios = [share.ratios.cpu, share.ratios.memory]
    addresses = [[number, list(which)] for number, which in share.addresses]
    devices = [list(pair) for pair in share.devices]
    ports = {"ports": [list(pair) for pair in share.ports]} if share.ports else {}
    return {"cells": cells, "devices": devices, "ratios": ratios, "addresses": addresses, **ports}


def share_from_json(value: Mapping[str, Any]) -> DeviceShare:
    """Parse the result of :func:`share_as_json`."""
    cells = tuple(
        CellShare(
            **{
                **part,
                "pinned": parse_cpus(part["pinned"]),
                "pinning": tuple((vcpu, cpu) for vcpu, cpu in part["pinning"]),
                "emulator": parse_cpus(part["emulator"]),
                "vcpus": parse_cpus(part.get("vcpus", "")),  # shares of earlier releases lack "vcpus"
            }
        )
        for part in value["cells"]
    )
    devices = tuple((number, count) for number, count in value["devices"])
    addresses = tuple((number, tuple(which)) for number, which in value.get("addresses", ()))
    ports = tuple((port_id, number) for port_id, number in value.get("ports", ()))
    return DeviceShare(cells, devices, Ratios(*value["ratios"]), addresses, ports)


def cell_facts(cell: HostCell) -> dict[str, Any]:
    return {
        "cpuset": cpus_text(cell.cpuset),
        "pcpuset": cpus_text(cell.pcpuset),
        "memory_mib": cell.memory_mib,
        "siblings": [cpus_text(core) for core in cell.siblings],
        "pages": [[pages.size_kib, pages.total, pages.reserved] for pages in cell.pages],
        "socket": cell.socket,
        **({"physnets": sorted(cell.physnets)} if cell.physnets else {}),
        **({"tunneled": True} if cell.tunneled else {}),
    }


def cell_use(cell: HostCell) -> dict[str, Any]:
    return {
        "cpus": cell.used_cpus,
        "memory_mib": cell.used_memory_mib,
        "pinned": cpus_text(cell.pinned),
        "pages": [pages.used for pages in cell.pages],
    }


def read_cell(number: int, facts: Mapping[str, Any], used: Mapping[str, Any]) -> HostCell:
    return HostCell(
        id=number,
        cpuset=parse_cpus(facts["cpuset"]),
        pcpuset=parse_cpus(facts["pcpuset"]),
        memory_mib=facts["memory_mib"],
        siblings=tuple(parse_cpus(core) for core in facts["siblings"]),
        pages=tuple(
            Pages(size, total, reserved, count)
            for (size, total, reserved), count in zip(facts["pages"], used["pages"], strict=True)
        ),
        socket=facts["socket"],
        used_cpus=used["cpus"],
        used_memory_mib=used["memory_mib"],
        pinned=parse_cpus(used["pinned"]),
        physnets=frozenset(facts.get("physnets", ())),
        tunneled=facts.get("tunneled", False),
    )


def card_facts(pool: PciPool) -> dict[str, dict[str, Any]]:
    """Return address → what the host knows about the network card of the device, as JSON data."""
    return {
        address: {key: value for key, value in dataclasses.asdict(facts).items() if value is not None}
        for address, facts in pool.cards
    }


def pool_facts(pool: PciPool) -> dict[str, Any]:
    return {
        "vendor_id": pool.vendor_id,
        "product_id": pool.product_id,
        "numa_node": pool.numa_node,
        "dev_type": pool.dev_type,
        "tags": dict(pool.tags),
    }


def read_pool(number: int, facts: Mapping[str, Any], total: int, used: int) -> PciPool:
    return PciPool(
        number=number,
        vendor_id=facts["vendor_id"],
        product_id=facts["product_id"],
        total=total,
        numa_node=facts["numa_node"],
        dev_type=facts["dev_type"],
        tags=tuple(sorted(facts["tags"].items())),
        used=used,
        addresses=tuple(facts.get("addresses", ())),
        cards=tuple((address, CardFacts(**each)) for address, each in sorted(facts.get("cards", {}).items())),
    )
