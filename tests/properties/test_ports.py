# SPDX-License-Identifier: Apache-2.0
"""Hosts for ports that request resources are those of the allocation candidates, and so are the allocations."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduler.small_cloud import INVENTORIES, host, request, table

from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestedNetwork, RequestSpec, ResourceGroup
from kilonova.placement.candidates import find_candidates
from kilonova.placement.provider_table import ProviderRecord, build_provider_table
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.provider_trees import candidate_query
from kilonova.scheduler.explanations.explain import explain
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.resources import with_resources
from support.samples import sampled

EGRESS, PACKETS = "NET_BW_EGR_KILOBIT_PER_SEC", "NET_PACKET_RATE_KILOPACKET_PER_SEC"
PHYSNETS = ("CUSTOM_PHYSNET_A", "CUSTOM_PHYSNET_B")
AMOUNTS = st.integers(1, 4)
#: Agents of one host, each with its packet rate and with the bandwidths of its bridges by physical network.
AGENTS = st.lists(st.tuples(st.integers(0, 4), st.dictionaries(st.sampled_from(PHYSNETS), AMOUNTS)), max_size=2)
#: Ports, each with a physical network, a bandwidth, and a packet rate (0: none).
PORTS = st.lists(st.tuples(st.sampled_from(PHYSNETS), AMOUNTS, st.integers(0, 2)), min_size=1, max_size=3)


def cloud(hosts: list[list[tuple[int, dict[str, int]]]]) -> HostTable:
    records, names = [], [f"h{index}" for index in range(len(hosts))]
    for name, agents in zip(names, hosts, strict=True):
        records.append(ProviderRecord(name, None, INVENTORIES))
        for number, (packets, bridges) in enumerate(agents):
            agent = f"{name}-{number}"
            given = (Inventory(PACKETS, packets),) if packets else ()
            records.append(ProviderRecord(agent, name, given))
            records += [
                ProviderRecord(f"{agent}-{trait}", agent, (Inventory(EGRESS, bandwidth),), {}, frozenset({trait}))
                for trait, bandwidth in bridges.items()
            ]
    providers = build_provider_table(records)
    rows = np.array([providers.row_of[name] for name in names], dtype=np.int64)
    return replace(table(*map(host, names)), providers=providers, provider_rows=rows)


def asking(ports: list[tuple[str, int, int]], policy: str | None) -> RequestSpec:
    networks = []
    for number, (trait, bandwidth, packets) in enumerate(ports):
        port = f"port{number}"
        groups = [ResourceGroup(f"{port}-bw", {EGRESS: bandwidth}, frozenset({trait}), port_id=port)]
        if packets:
            groups.append(ResourceGroup(f"{port}-pps", {PACKETS: packets}, port_id=port))
        together = frozenset(group.suffix for group in groups)
        networks.append(RequestedNetwork("n", port_id=port, groups=tuple(groups), same_subtree=together))
    specs = {} if policy is None else {"group_policy": policy}
    return with_resources(replace(request(specs), networks=tuple(networks)))


@settings(max_examples=sampled(300, sample=40), deadline=None)
@given(st.lists(AGENTS, min_size=1, max_size=3), PORTS, st.sampled_from([None, "none", "isolate"]))
def test_claims_of_ports_are_allocation_candidates(
    hosts: list[list[tuple[int, dict[str, int]]]], ports: list[tuple[str, int, int]], policy: str | None
) -> None:
    there, spec = cloud(hosts), asking(ports, policy)
    providers = there.providers
    assert providers is not None
    possible: dict[str, list[tuple[object, object]]] = {}
    for found in find_candidates(providers, candidate_query(spec.query)).trees:
        amounts = {(providers.uuids[row], providers.resource_classes[column], n) for row, column, n in found.amounts}
        served = {suffix: providers.uuids[rows[0]] for suffix, rows in found.mappings if suffix}
        root = providers.uuids[int(providers.root[found.amounts[0][0]])]
        possible.setdefault(root, []).append((amounts, served))
    decision = Engine().decide(there, spec, limit=9)
    assert {each.host for each in decision.ranked} == possible.keys()
    assert [there.hosts[row] for row in np.flatnonzero(explain(there, spec, Engine()).passed)] == sorted(possible)
    for each in decision.ranked:
        given = Engine().allotment(there, spec, each.row)
        amounts = {(uuid, name, n) for uuid, taken in given.amounts.items() for name, n in taken.items()}
        assert (amounts, dict(given.providers)) in possible[each.host]
