# SPDX-License-Identifier: Apache-2.0
"""Handlers of long lists, in all APIs, check regularly whether the client is still connected."""

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova import deadline
from kilonova.api.application import WsgiApp
from kilonova.api.compute import (
    floating_ip_pools,
    floating_ips,
    networks,
    removed,
    security_groups,
    tenant_networks,
    volume_proxies,
)
from kilonova.api.compute.family import ComputeFamily
from kilonova.api.operator.family import OperatorFamily
from kilonova.api.placement.family import PlacementFamily
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import Deadline, heeding
from kilonova.errors import ClientGone
from kilonova.identifiers import new_uuid
from kilonova.wsgi_keys import CLIENT_GONE
from support.api_client import Client
from support.control import Control, NewControl

MANY = 300
LOOKS = MANY // 64
#: Lists that grow with the cloud or with what a tenant makes → the query, and the microversion where it is the longest.
LONG: Mapping[str, tuple[str, str]] = {
    "compute /v2.1/flavors": ("", "2.100"),
    "compute /v2.1/flavors/detail": ("", "2.100"),
    "compute /v2.1/os-aggregates": ("", "2.100"),
    "compute /v2.1/os-availability-zone/detail": ("", "2.100"),
    "compute /v2.1/os-hosts": ("", "2.42"),
    "compute /v2.1/os-hypervisors": ("", "2.100"),
    "compute /v2.1/os-hypervisors/detail": ("", "2.32"),
    "compute /v2.1/os-hypervisors/statistics": ("", "2.87"),
    "compute /v2.1/os-instance_usage_audit_log": ("", "2.100"),
    "compute /v2.1/os-keypairs": ("", "2.100"),
    "compute /v2.1/os-migrations": ("", "2.100"),
    "compute /v2.1/os-server-groups": ("?all_projects=1", "2.100"),
    "compute /v2.1/os-services": ("", "2.100"),
    "compute /v2.1/os-simple-tenant-usage": ("?start=2001-01-01T00:00:00&detailed=1", "2.100"),
    "compute /v2.1/servers": ("?all_tenants=1", "2.100"),
    "compute /v2.1/servers/detail": ("?all_tenants=1", "2.100"),
    "operator /v1/hosts": ("", "1.0"),
    "placement /resource_providers": ("", "1.39"),
    "placement /resource_classes": ("", "1.39"),
    "placement /traits": ("", "1.39"),
}
#: The others: of a fixed length, bounded by a budget of their own, columns, or tested where the audit itself is.
SHORT = frozenset(
    {
        "compute /", "compute /v2", "compute /v2/", "compute /v2.1", "compute /v2.1/", "compute /v2.1/limits",
        "compute /v2.1/extensions", "compute /v2.1/images", "compute /v2.1/images/detail",
        "compute /v2.1/os-availability-zone",
        "placement /", "placement /usages", "placement /allocation_candidates",
        "operator /", "operator /v1", "operator /v1/options", "operator /v1/rules", "operator /v1/isolation",
        "operator /v1/health", "operator /v1/metrics", "operator /v1/read-only", "operator /v1/strays",
        "operator /v1/servers/count", "operator /v1/workflows", "operator /v1/jobs", "operator /v1/changes",
        "operator /v1/openapi.json", "operator /v1/plans", "operator /v1/hosts/usage",
    }
)  # fmt: skip
#: Long only with a network service, so it has a test of its own.
OF_NETWORK = "operator /v1/stray-ports"
#: Empty without the service that they ask.
PROXIES = (floating_ip_pools, floating_ips, networks, security_groups, tenant_networks, volume_proxies)
#: Gone, or empty.
EMPTY = frozenset(
    f"compute /v2.1{path}"
    for module in (removed, *PROXIES)
    for path, methods in module.ROUTES.items()
    if "GET" in methods
)


def lists() -> set[str]:
    """Every GET route without parameters but those with a project in the path, and the other names of servers."""
    return {
        f"{family.name} {template}"
        for family in (ComputeFamily, PlacementFamily, OperatorFamily)
        for template, endpoints in family.routes.items()
        if "GET" in endpoints and "{" not in template and "os-volumes_boot" not in template
    }


def looks(app: WsgiApp, ask: Callable[[WsgiApp], Any]) -> int:
    """Count how often a loop looked whether the client is there; what the database asks does not count."""
    seen = 0

    def client_gone() -> bool:
        nonlocal seen
        frame: Any = sys._getframe()
        while frame is not None and frame.f_code is not heeding.__code__:
            frame = frame.f_back
        seen += frame is not None
        return False

    answer = ask(lambda environ, start: app({**environ, CLIENT_GONE: client_gone}, start))
    assert answer.status == 200, answer.body
    return seen


@pytest.fixture(scope="module")
def crowded(new_shared_control: NewControl) -> Control:
    """A control process with many of everything."""
    control: Control = new_shared_control(more="[api]\nmax_limit = 1000\n")
    control.admin.post("/os-server-groups", {"server_group": {"name": "g", "policy": "affinity"}})
    pattern = control.boot(control.admin)

    def crowd(tx: Transaction) -> None:
        def add(table: sa.Table, **own: Callable[[int], Any]) -> None:
            """Copy a row many times but for what each copy has for itself."""
            row = dict(tx.execute(sa.select(table).order_by(sa.desc("created_at")).limit(1)).mappings().one())
            row.pop("id", None)
            copies = [{**row, **{name: make(number) for name, make in own.items()}} for number in range(MANY)]
            tx.execute(sa.insert(table), copies)

        uuid = {"uuid": lambda _: new_uuid()}
        names = {"name": lambda number: f"CUSTOM_{number}"}
        tx.execute(sa.insert(t.aggregates), {"uuid": new_uuid(), "name": "a", "created_at": tx.now})
        flavor = tx.execute(sa.select(t.instances.c.flavor).where(t.instances.c.uuid == pattern["id"])).scalar_one()
        moved = {
            "uuid": new_uuid(),
            "instance_uuid": pattern["id"],
            "migration_type": "migration",
            "status": "confirmed",
        }
        who = {"request_id": "req", "user_id": "u", "project_id": "p", "created_at": tx.now}
        where = {"source_host": "a", "source_node": "a", "old_flavor": flavor, "new_flavor": flavor}
        tx.execute(sa.insert(t.server_migrations), {**moved, **who, **where})
        tx.execute(
            sa.insert(t.keypairs),
            {"user_id": "admin", "name": "k", "type": "ssh", "fingerprint": "", "public_key": "", "created_at": tx.now},
        )
        add(t.flavors, flavor_id=lambda number: f"f{number}", name=lambda number: f"f{number}")
        add(t.aggregates, **uuid, **names)
        add(t.keypairs, **names)
        add(t.server_migrations, **uuid)
        add(t.server_groups, **uuid)
        add(t.services, **uuid, host=lambda number: f"h{number}", binary=lambda _: "nova-compute")
        add(t.compute_nodes, **uuid, host=lambda number: f"h{number}", hypervisor_hostname=lambda number: f"h{number}")
        add(t.resource_providers, **uuid, **names)
        add(t.resource_classes, **names)
        add(t.instances, **uuid)

    assert pattern["status"] == "ACTIVE"
    control.process.database.write(crowd)
    return control


def test_every_list_is_held_to_it_or_known_to_be_short() -> None:
    assert lists() - EMPTY == set(LONG) | SHORT | {OF_NETWORK}, "say in this module whether these lists can be long"
    assert not set(LONG) & SHORT


@pytest.mark.parametrize("route", sorted(LONG))
def test_a_long_list_is_given_up_when_nobody_waits_for_it(crowded: Control, route: str) -> None:
    api, template = route.split()
    query, version = LONG[route]
    path = f"{template.removeprefix('/v2.1').removeprefix('/v1')}{query}"
    seen = looks(crowded.process.application, lambda app: Client(app, version=version, api=api).get(path))
    assert seen >= LOOKS, f"{seen} looks at {MANY} items"


def test_a_long_list_of_stray_ports_is_given_up_when_its_client_has_left(networked_control: Control) -> None:
    neutron = networked_control.neutron
    network = neutron.make_network(v4="10.1.0.0/16")
    for _ in range(MANY):
        neutron.make_port(network, device_id=new_uuid(), device_owner="compute:nova")
    path = OF_NETWORK.removeprefix("operator /v1")
    seen = looks(
        networked_control.process.application, lambda app: Client(app, version="1.0", api="operator").get(path)
    )
    assert seen >= 2 * LOOKS, "the ports are read twice"


def test_heeding_stops_in_the_middle_of_a_list() -> None:
    taken: list[int] = []
    over = Deadline(None, lambda: len(taken) >= 100)
    with pytest.raises(ClientGone), deadline.running(over):
        taken.extend(taken.append(item) or item for item in heeding(range(10_000)))
    assert 100 <= len(taken) < 200
    assert list(heeding(range(1000))) == list(range(1000)), "a thread without a deadline"
    assert inspect.isgenerator(heeding([]))
