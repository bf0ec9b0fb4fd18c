# SPDX-License-Identifier: Apache-2.0
"""Shared values of the mirror are never changed in place, and a host takes little memory."""

import copy
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from kilonova.db.change_log.changes import (
    Change,
    Commit,
    LoggedCapabilities,
    LoggedHeartbeat,
    LoggedInstance,
    LoggedNode,
    LoggedProvider,
    LoggedService,
    LoggedUse,
)
from kilonova.mirror.mirror import Mirror
from kilonova.mirror.provider_columns import ProviderColumns
from kilonova.mirror.state import Assumption
from support.mirrors import assert_equal, hosts_of, providers_of

FIGURES = {"VCPU": [64, 0, 1, 64, 1, 4.0, 256, 0], "MEMORY_MB": [262_144, 4_096, 1, 262_144, 1, 1.0, 258_048, 0]}
CAPABILITIES = LoggedCapabilities("fake", 0, (), {}, {})
DISK = {"DISK_GB": [4_000, 0, 1, 4_000, 1, 1.0, 4_000, 0]}


def uuid_of(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012x}"


def provider(number: int, *, parent: int | None = None, traits: tuple[str, ...] = (), **more: Any) -> Change:
    root = number if parent is None else parent
    value = LoggedProvider(
        id=number,
        name=f"compute{number:06d}",
        generation=1,
        root=uuid_of(root),
        parent=None if parent is None else uuid_of(parent),
        inventories=copy.deepcopy(FIGURES | DISK),
        traits=traits,
        aggregates=[],
    )
    return Change("provider", uuid_of(number), structs.replace(value, **more))


def service(host: str, **more: Any) -> Change:
    value = LoggedService(disabled=False, reason=None, forced_down=False, last_seen=5.0, created=1.0)
    return Change("service", host, structs.replace(value, **more))


def node(number: int, host: str, name: str, **more: Any) -> Change:
    value = LoggedNode(host, name, f"10.0.0.{number}", CAPABILITIES, 0)
    return Change("node", uuid_of(number), structs.replace(value, **more))


def instance(uuid: str, host: str, name: str, *, io: bool = False, flavor: str = "1") -> Change:
    return Change("instance", uuid, LoggedInstance(host, name, io, flavor, {}))


def cloud(hosts: int) -> Iterator[Change]:
    """Changes of hosts that have one hypervisor each, of their own name, and 40 traits; texts as a load shares them."""
    traits = tuple(f"CUSTOM_T{number}" for number in range(40))
    names = [f"compute{number:06d}" for number in range(1, hosts + 1)]
    uuids = []
    for number in range(1, hosts + 1):
        change = provider(number, traits=traits)
        uuids.append(change.key)
        yield change
    for name in names:
        yield service(name)
    for number, (uuid, name) in enumerate(zip(uuids, names, strict=True), start=1):
        yield Change("node", uuid, node(number, name, name).value)


def following(mirror: Mirror, *changes: Change) -> None:
    mirror.on_commit(Commit(mirror.seq + 1, changes, ()))


def test_a_host_takes_no_more_than_a_kibibyte() -> None:
    many, few = 10_000, 10
    Mirror.of(cloud(few), 0, now=9.0).snapshot()  # what is imported and compiled at first use
    tracemalloc.start()
    try:
        mirror = Mirror.of(cloud(many), 0, now=9.0)
        table = mirror.snapshot()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(table) == many
    assert taken / many < 1024


def test_tables_of_hosts_and_of_providers_share_what_they_have_in_common() -> None:
    mirror = Mirror.of(cloud(3), 0, now=9.0)
    hosts, providers = mirror.snapshot(), mirror.providers()
    for name in ("total", "reserved", "allocation_ratio", "min_unit", "max_unit", "step_size", "capacity"):
        assert np.shares_memory(getattr(hosts, name), getattr(providers, name)), name
        assert np.shares_memory(getattr(hosts, name), getattr(mirror.snapshot(), name)), name
    assert np.shares_memory(hosts.trait_bits, providers.trait_bits)
    assert not np.shares_memory(hosts.used, providers.used)
    assert not np.shares_memory(hosts.used, mirror.snapshot().used)


CHANGES: dict[str, Callable[[], Change]] = {
    "another inventory": lambda: provider(2, inventories={"VCPU": [8, 1, 2, 4, 2, 1.5, 10, 0]}),
    "a class more": lambda: provider(1, inventories=FIGURES | {"CUSTOM_A": [8, 1, 2, 4, 2, 1.5, 10, 0]}),
    "a class more by its use": lambda: Change("usage", uuid_of(1), LoggedUse(2, {"CUSTOM_B": 1})),
    "other traits": lambda: provider(3, traits=("CUSTOM_NEW",)),
    "other aggregates": lambda: provider(3, aggregates=[uuid_of(99)]),
    "a provider more": lambda: provider(7),
    "a provider more, before others": lambda: provider(0),
    "a child": lambda: provider(8, parent=2),
    "no child": lambda: Change("provider", uuid_of(8), None),
    "one less": lambda: Change("provider", uuid_of(1), None),
    "a hypervisor less": lambda: Change("node", uuid_of(2), None),
    "a service less": lambda: Change("service", "compute000003", None),
    "a disabled service": lambda: service("compute000001", disabled=True, reason="why"),
    "a heartbeat": lambda: Change("heartbeat", "", LoggedHeartbeat(77.0, ["compute000001", "unknown"])),
    "a server": lambda: instance("i", "compute000002", "compute000002", io=True),
    "a failed build": lambda: node(1, "compute000001", "compute000001", failed_builds=3),
}


@pytest.mark.parametrize("first", CHANGES)
def test_no_change_reaches_a_table_that_was_handed_out(first: str) -> None:
    for second in CHANGES:
        mirror = Mirror.of(cloud(4), 0, now=9.0)
        tables = []
        for what in (first, second):
            hosts, providers = mirror.snapshot(), mirror.providers()
            rows = dict(providers.row_of)
            tables.append((hosts, hosts_of(hosts), providers, providers_of(providers), rows))
            following(mirror, CHANGES[what]())
        for hosts, known_hosts, providers, known_providers, rows in tables:
            assert hosts_of(hosts) == known_hosts, (first, second)
            assert providers_of(providers) == known_providers, (first, second)
            assert providers.row_of == rows


@pytest.mark.parametrize("first", CHANGES)
def test_changes_lead_to_the_same_place_with_and_without_tables_in_between(first: str) -> None:
    for second in CHANGES:
        looked, blind = (Mirror.of(cloud(4), 0, now=9.0) for _ in range(2))
        for what in (first, second):
            looked.snapshot()
            looked.providers()
            following(looked, CHANGES[what]())
            following(blind, CHANGES[what]())
        assert_equal(looked, blind)


def test_columns_grow_and_shrink_with_their_tables_left_alone() -> None:
    columns = ProviderColumns()
    tables = []
    for number in range(1, 301):
        change = provider(number, inventories={"VCPU": [number, 0, 1, number, 1, 1.0, number, number]})
        columns.set(change.key, change.value)
        if number % 50 == 0:
            tables.append(columns.table())
    for number in range(1, 301, 2):
        columns.remove(uuid_of(number))
    assert columns.used[:, 0].tolist() == list(range(2, 301, 2))
    assert columns.table().total[:, 0].tolist() == list(range(2, 301, 2))
    for table in tables:
        assert table.total[:, 0].tolist() == list(range(1, len(table) + 1))
        assert [table.row_of[uuid] for uuid in table.uuids] == list(range(len(table)))


def test_filling_leaves_room_and_stores_every_figure() -> None:
    """More than are stored together, and some providers without any."""
    count = 8_000
    columns = ProviderColumns()
    with columns.filling():
        for number in range(1, count + 1):
            has = {name: [number, *figures[1:]] for name, figures in FIGURES.items()} if number % 3 else {}
            change = provider(number, inventories=has)
            columns.set(change.key, change.value)
    expected = [number if number % 3 else 0 for number in range(1, count + 1)]
    table = columns.table()
    assert table.total[:, 0].tolist() == table.total[:, 1].tolist() == expected
    assert table.has_inventory[:, 1].tolist() == [bool(total) for total in expected]
    columns.set(uuid_of(count + 1), provider(count + 1).value)
    assert columns.table().total[-1].tolist() == [64, 262_144, 4_000]
    assert columns.table().capacity[:count].sum() == table.capacity.sum()


def test_several_hypervisors_on_a_host() -> None:
    changes = [
        *(provider(number) for number in range(1, 5)),
        service("h0", disabled=True, reason="broken", last_seen=3.0),
        service("h1", last_seen=None),
        service("without hypervisors"),
        node(3, "h0", "n0"),
        node(1, "h0", "n1", failed_builds=2),
        node(4, "h1", "n0"),
        node(2, "no service", "n9"),
        instance("on n0", "h0", "n0"),
        instance("on n1", "h0", "n1", io=True),
        instance("nowhere", "h0", "gone"),
    ]
    mirror = Mirror.of(changes, 0, now=9.0)
    table = mirror.snapshot()
    assert (table.hosts, table.nodes) == (("h0", "h0", "h1"), ("n1", "n0", "n0"))
    assert table.uuids == (uuid_of(1), uuid_of(3), uuid_of(4))
    assert table.host_ips == ("10.0.0.1", "10.0.0.3", "10.0.0.4")
    assert table.disabled.tolist() == [True, True, False]
    assert table.disabled_reasons == {0: "broken", 1: "broken"}
    assert table.last_seen.tolist() == [3.0, 3.0, 1.0], "one that was never heard of counts from when it was made"
    assert table.failed_builds.tolist() == [2, 0, 0]
    assert table.num_instances.tolist() == [1, 1, 0]
    assert table.num_io_ops.tolist() == [1, 0, 0]
    assert dict(table.instance_rows) == {"on n0": 1, "on n1": 0}
    assert "nowhere" not in table.instance_rows
    following(mirror, Change("heartbeat", "", LoggedHeartbeat(8.0, ["h0", "nobody"])))
    assert mirror.snapshot().last_seen.tolist() == [8.0, 8.0, 1.0]
    following(mirror, node(2, "h0", "gone"), Change("node", uuid_of(1), None))
    table = mirror.snapshot()
    assert (table.hosts, table.nodes) == (("h0", "h0", "h1"), ("gone", "n0", "n0"))
    assert table.num_instances.tolist() == [1, 1, 0]
    assert dict(table.instance_rows) == {"on n0": 1, "nowhere": 0}
    following(mirror, Change("service", "h0", None))
    following(mirror, Change("heartbeat", "", LoggedHeartbeat(9.0, ["h0"])))
    assert mirror.snapshot().hosts == ("h1",)
    following(mirror, service("h0", last_seen=2.0))
    table = mirror.snapshot()
    assert table.disabled.tolist() == [False, False, False]
    assert table.disabled_reasons == {}
    assert table.last_seen.tolist() == [2.0, 2.0, 1.0], "what is gone is not heard of"


def test_readers_share_a_table_until_something_changes() -> None:
    mirror = Mirror.of(cloud(4), 0, now=9.0)
    seen = [mirror.providers()]
    assert mirror.providers() is seen[0]
    with pytest.raises(ValueError, match="read-only"):
        seen[0].used[0, 0] = 1
    assert mirror.snapshot().used.flags.writeable
    taken = Assumption("claim", {uuid_of(1): {"VCPU": 1}}, "compute000001", "compute000001")
    for change in (
        lambda: mirror.assume(taken),
        lambda: mirror.forget("claim"),
        *(lambda what=what: following(mirror, CHANGES[what]()) for what in ("a class more by its use", "other traits")),
    ):
        change()
        assert all(mirror.providers() is not each for each in seen)
        seen.append(mirror.providers())
    assert [table.used[0, 0] for table in seen[:3]] == [0, 1, 0]
