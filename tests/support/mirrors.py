# SPDX-License-Identifier: Apache-2.0
"""Comparison of two mirrors by names instead of column numbers: equal means that every rule sees the same."""

import time
from collections import Counter
from typing import Any

import numpy as np

from kilonova.db.database import Database
from kilonova.mirror.mirror import Mirror
from kilonova.placement.provider_table import ProviderTable
from kilonova.scheduler.host_table import HostTable

_HOST_FIGURES = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio", "capacity", "used")
_HOST_COLUMNS = ("hosts", "nodes", "uuids", "host_ips", "disabled", "forced_down", "last_seen", "num_instances")
_MORE_HOST_COLUMNS = ("num_io_ops", "failed_builds")


def _by_class(table: HostTable | ProviderTable, row: int) -> dict[str, dict[str, Any]]:
    present = {}
    for column, name in enumerate(table.resource_classes):
        figures = {figure: getattr(table, figure)[row, column].item() for figure in _HOST_FIGURES}
        if figures["total"] or figures["used"]:
            present[name] = figures
    return present


def _names(rows: Any, bits: Any, column: int) -> set[str]:
    return {name for name, row in rows.items() if bits[row, column]}


def hosts_of(table: HostTable) -> list[dict[str, Any]]:
    """Return every fact of a host table: one dict per host, in row order."""
    profiles = [table.profiles[index] for index in table.profile]
    found = []
    for row in range(len(table)):
        facts = {name: getattr(table, name)[row] for name in (*_HOST_COLUMNS, *_MORE_HOST_COLUMNS)}
        if facts["last_seen"] == table.taken_at:
            facts["last_seen"] = "now"  # column numbers of names differ between two tables
        facts |= {
            "figures": _by_class(table, row),
            "traits": _names(table.trait_rows, table.trait_bits, row),
            "profile": profiles[row],
            "aggregates": table.aggregates.of_host(row),
            "reason": table.disabled_reasons.get(row),
            "metrics": {name: column[row] for name, column in table.metrics.items() if not np.isnan(column[row])},
            "devices": table.devices_of(row),
        }
        found.append(facts)
    return found


def guests_of(mirror: Mirror) -> list[dict[str, Any]]:
    """Return the guest counts of each host by the keys that rules query: one dict per host, in row order."""
    table, kinds = mirror.snapshot(), {placed.kind for placed in mirror._state.instances.values()}
    guests = table.guests
    columns = {("not", kind.flavor_id): guests.of_other_flavors(kind.flavor_id) for kind in kinds}
    columns |= {("not", "no such"): guests.of_other_flavors("no such")}
    columns |= {pair: guests.with_image_property(*pair) for kind in kinds for pair in kind.image_properties}
    return [{key: column[row] for key, column in sorted(columns.items())} for row in range(len(table))]


def providers_of(table: ProviderTable) -> list[dict[str, Any]]:
    """Return every fact of a provider table: one dict per provider, in row order."""
    return [
        {
            "uuid": uuid,
            "parent": table.uuids[table.parent[row]] if table.parent[row] >= 0 else None,
            "root": table.uuids[table.root[row]],
            "figures": _by_class(table, row),
            "has": {name for column, name in enumerate(table.resource_classes) if table.has_inventory[row, column]},
            "traits": _names(table.trait_rows, table.trait_bits, row),
            "aggregates": _names(table.aggregate_rows, table.aggregate_bits, row),
        }
        for row, uuid in enumerate(table.uuids)
    ]


def assert_equal(followed: Mirror, loaded: Mirror) -> None:
    """Fail at the first fact in which a mirror that followed the change log differs from a newly loaded one."""
    one, other = followed.snapshot(), loaded.snapshot()
    assert hosts_of(one) == hosts_of(other)
    assert one.aggregates.isolation_version == other.aggregates.isolation_version
    assert dict(one.instance_rows) == dict(other.instance_rows)
    assert guests_of(followed) == guests_of(loaded)
    assert providers_of(followed.providers()) == providers_of(loaded.providers())
    assert followed._state.providers.ids == loaded._state.providers.ids
    assert set(followed._state.groups._confirmed) == set(loaded._state.groups._confirmed)
    for uuid in followed._state.groups._confirmed:
        assert followed.group(uuid) == loaded.group(uuid)
    assert followed.seq == loaded.seq


def assert_follows(followed: Mirror, database: Database, *, at_most_s: float = 10.0) -> None:
    """Fail unless a mirror that followed the change log equals a newly loaded one at the same sequence number.

    Other clients may write meanwhile: a comparison during which a change arrived is repeated.
    """
    loaded, until = Mirror.follow(database), time.monotonic() + at_most_s
    while True:
        followed.catch_up()
        loaded.catch_up()
        seq = followed.seq
        try:
            assert_equal(followed, loaded)
        except AssertionError:
            if time.monotonic() > until or followed.seq == loaded.seq == seq:
                raise
        else:
            return


def assert_use_adds_up(mirror: Mirror) -> None:
    """Assert that the usage that decisions see is the database's usage plus the assumed claims."""
    columns = mirror._state.providers
    expected = columns.used.copy()
    for assumption in mirror._state.assumed.values():
        for uuid, amounts in assumption.allocations.items():
            for name, amount in amounts.items():
                expected[columns.row_of[uuid], columns.column(name)] += amount
    assert np.array_equal(columns.view_used, expected)


def assert_guests_add_up(mirror: Mirror) -> None:
    """Assert that the guests that rules see are all placed instances plus the assumed claims, each once."""
    node_id = mirror._state.node_ids.node
    on_hosts = [(placed.node_id, placed.kind) for placed in mirror._state.instances.values()]
    coming = [
        (node_id(each.host, each.node), each.guest) for each in mirror._state.assumed.values() if each.guest is not None
    ]
    expected = Counter(on_hosts + coming)
    counted = {
        (place, kind): count
        for place, kinds in mirror._state.guest_tally()._kinds.items()
        for kind, count in kinds.items()
    }
    assert counted == expected
