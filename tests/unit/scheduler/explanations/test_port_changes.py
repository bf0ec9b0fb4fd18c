# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np
from tests.unit.scheduler.small_cloud import INVENTORIES, host, request, table

from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestedNetwork, ResourceGroup
from kilonova.placement.provider_table import ProviderRecord, build_provider_table
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.explanations.nearest_miss import nearest_misses
from kilonova.scheduler.host_table import HostTable

BANDWIDTH, PHYSNET = "NET_BW_EGR_KILOBIT_PER_SEC", "CUSTOM_PHYSNET_A"


def cloud(**free: int) -> HostTable:
    """Return a host with a bridge for each bandwidth."""
    traits = frozenset({PHYSNET})
    records = [ProviderRecord(name, None, INVENTORIES) for name in free]
    records += [
        ProviderRecord(f"{name}-bridge", name, (Inventory(BANDWIDTH, 10_000),), {BANDWIDTH: 10_000 - room}, traits)
        for name, room in free.items()
    ]
    providers = build_provider_table(records)
    rows = np.array([providers.row_of[name] for name in free], dtype=np.int64)
    return replace(table(*map(host, free)), providers=providers, provider_rows=rows)


def asking(amount: int) -> RequestedNetwork:
    group = ResourceGroup("port", {BANDWIDTH: amount}, frozenset({PHYSNET}), port_id="port")
    return RequestedNetwork("net", port_id="port", groups=(group,))


def test_the_smallest_change_is_the_bandwidth_that_a_host_lacks() -> None:
    spec = replace(request(), networks=(asking(3_000),))
    nearest, *others = nearest_misses(cloud(a=2_500, b=1_000), spec, Engine())
    assert [change.text for change in nearest.changes] == [
        f"ask for 2500 {BANDWIDTH} instead of 3000 for port port (500 less)"
    ]
    assert (nearest.host, nearest.hindrances[0][0]) == ("a", "Placement: port port")
    assert "do without port port" in {change.text for miss in others for change in miss.changes}


def test_a_cloud_without_agents_can_only_do_without_the_port() -> None:
    hosts = cloud(a=1)
    bare = replace(
        hosts,
        providers=build_provider_table([ProviderRecord("a", None, INVENTORIES)]),
        provider_rows=np.array([0], dtype=np.int64),
    )
    (miss,) = nearest_misses(bare, replace(request(), networks=(asking(3_000),)), Engine())
    assert [change.text for change in miss.changes] == ["do without port port"]
