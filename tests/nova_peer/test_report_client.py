# SPDX-License-Identifier: Apache-2.0
"""Nova's report client runs all its operations against Kilonova's Placement, with checks of their effects."""

from typing import Any
from uuid import uuid4

import pytest
from nova import exception, objects
from nova.scheduler.utils import ResourceRequest
from report_peer import Peer

CPU_TRAIT, OWN_TRAIT = "HW_CPU_X86_AVX2", "CUSTOM_NOVA_PEER"
OWN_CLASS = "CUSTOM_NOVA_PEER_DEVICE"


def inventory(total: int, ratio: float = 1.0) -> dict[str, Any]:
    return {
        "total": total,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": total,
        "step_size": 1,
        "allocation_ratio": ratio,
    }


HOST = {"VCPU": inventory(8, 4.0), "MEMORY_MB": inventory(16_384), "DISK_GB": inventory(200)}
SERVER = {"VCPU": 2, "MEMORY_MB": 2_048, "DISK_GB": 20}


def make_host(peer: Peer, name: str | None = None, *, aggregate: str | None = None) -> str:
    """Create the provider as nova-compute does at its start. Returns its uuid."""
    uuid, name = str(uuid4()), name or peer.name
    tree = peer.client.get_provider_tree_and_ensure_root(peer.context, uuid, name=name)
    tree.update_inventory(name, HOST)
    tree.update_traits(name, [CPU_TRAIT, OWN_TRAIT])
    if aggregate:
        tree.update_aggregates(name, [aggregate])
    peer.client.update_from_provider_tree(peer.context, tree)
    return uuid


def seen_anew(peer: Peer, host: str) -> Any:
    """Refresh the client's view of the host's tree, because claims have raised its generations."""
    peer.client.clear_provider_cache()
    return peer.client.get_provider_tree_and_ensure_root(peer.context, host)


def candidates(peer: Peer, aggregate: str, **extra_specs: str) -> tuple[list[Any], dict[str, Any], str]:
    """Request allocation candidates as the scheduler does, for a server of 2 CPUs in one aggregate."""
    flavor = objects.Flavor(
        vcpus=2,
        memory_mb=2_048,
        root_gb=20,
        ephemeral_gb=0,
        swap=0,
        extra_specs={key.replace("__", ":"): value for key, value in extra_specs.items()},
    )
    spec = objects.RequestSpec(
        flavor=flavor,
        is_bfv=False,
        image=None,
        requested_resources=[],
        request_level_params=objects.RequestLevelParams(),
    )
    wanted = ResourceRequest.from_request_spec(spec)
    wanted.get_request_group(None).aggregates = [[aggregate]]
    found: tuple[list[Any], dict[str, Any], str] = peer.client.get_allocation_candidates(peer.context, wanted)
    return found


def claim(peer: Peer, consumer: str, provider: str, resources: dict[str, int] | None = None) -> bool:
    request = {"allocations": {provider: {"resources": resources or SERVER}}}
    return bool(peer.client.claim_resources(peer.context, consumer, request, "project", "user", "1.36"))


def test_a_host_reports_its_inventory_traits_and_aggregates(peer: Peer) -> None:
    aggregate = str(uuid4())
    host = make_host(peer, aggregate=aggregate)

    assert peer.inventories(host) == {"VCPU": 8, "MEMORY_MB": 16_384, "DISK_GB": 200}
    assert set(peer.show(f"/resource_providers/{host}/traits")["traits"]) == {OWN_TRAIT, CPU_TRAIT}
    assert peer.show(f"/resource_providers/{host}/aggregates")["aggregates"] == [aggregate]
    assert peer.client.get_resource_provider_name(peer.context, host) == peer.name
    assert peer.client.get_provider_by_name(peer.context, peer.name)["uuid"] == host
    assert set(peer.client.get_provider_traits(peer.context, host).traits) == {OWN_TRAIT, CPU_TRAIT}


def test_a_restarted_host_finds_its_tree_again(peer: Peer) -> None:
    host = make_host(peer)

    tree = seen_anew(peer, host)

    assert tree.has_traits(host, [CPU_TRAIT, OWN_TRAIT])
    assert not tree.has_inventory_changed(host, HOST)


def test_a_tree_grows_shrinks_and_changes(peer: Peer) -> None:
    host = make_host(peer)
    tree = peer.client.get_provider_tree_and_ensure_root(peer.context, host)
    children = [tree.new_child(f"{peer.name}-{number}", host) for number in range(2)]
    for child in children:
        tree.update_inventory(child, {OWN_CLASS: inventory(4)})
    tree.update_inventory(host, {**HOST, "VCPU": inventory(16)})
    peer.client.update_from_provider_tree(peer.context, tree)

    assert {provider["uuid"] for provider in peer.client.get_providers_in_tree(peer.context, host)} == {host, *children}
    assert [peer.inventories(child) for child in children] == [{OWN_CLASS: 4}] * 2
    assert peer.inventories(host)["VCPU"] == 16

    tree = peer.client.get_provider_tree_and_ensure_root(peer.context, host)
    tree.remove(children[0])
    peer.client.update_from_provider_tree(peer.context, tree)

    shown = peer.show(f"/resource_providers?in_tree={host}")["resource_providers"]
    assert {provider["uuid"]: provider["parent_provider_uuid"] for provider in shown} == {host: None, children[1]: host}


def test_a_host_joins_and_leaves_aggregates(peer: Peer) -> None:
    host, first, second = make_host(peer), str(uuid4()), str(uuid4())

    peer.client.aggregate_add_host(peer.context, first, host_name=peer.name)
    peer.client.aggregate_add_host(peer.context, second, rp_uuid=host)
    peer.client.aggregate_remove_host(peer.context, first, peer.name)

    assert peer.show(f"/resource_providers/{host}/aggregates")["aggregates"] == [second]


def test_the_scheduler_finds_candidates_and_claims_one(peer: Peer) -> None:
    aggregate, server = str(uuid4()), str(uuid4())
    hosts = {make_host(peer, f"{peer.name}-{number}", aggregate=aggregate) for number in range(3)}

    requests, summaries, version = candidates(peer, aggregate, **{f"trait__{CPU_TRAIT}": "required"})

    assert {provider for request in requests for provider in request["allocations"]} == hosts == set(summaries)
    chosen = requests[0]
    assert peer.client.claim_resources(peer.context, server, chosen, "project", "user", version)
    (provider,) = chosen["allocations"]
    assert peer.allocations(server) == {provider: SERVER}
    assert peer.usages(provider) == SERVER
    assert candidates(peer, aggregate, **{f"trait__{CPU_TRAIT}": "forbidden"})[0] == []


def test_candidates_of_a_device_name_the_child_that_has_it(peer: Peer) -> None:
    aggregate, server = str(uuid4()), str(uuid4())
    host = make_host(peer, aggregate=aggregate)
    tree = peer.client.get_provider_tree_and_ensure_root(peer.context, host)
    device = tree.new_child(f"{peer.name}-device", host)
    tree.update_inventory(device, {OWN_CLASS: inventory(2)})
    peer.client.update_from_provider_tree(peer.context, tree)

    requests, _, version = candidates(peer, aggregate, **{f"resources_1__{OWN_CLASS}": "1"})

    assert [request["mappings"] for request in requests] == [{"": [host], "_1": [device]}]
    assert peer.client.claim_resources(peer.context, server, requests[0], "project", "user", version)
    assert peer.allocations(server) == {host: SERVER, device: {OWN_CLASS: 1}}


def test_no_more_is_claimed_than_there_is(peer: Peer) -> None:
    host = make_host(peer)
    claimed = [claim(peer, str(uuid4()), host, {"DISK_GB": 90}) for _ in range(3)]

    assert claimed == [True, True, False]
    assert peer.usages(host)["DISK_GB"] == 180


def test_a_resize_holds_both_hosts_and_lets_the_old_one_go(peer: Peer) -> None:
    old, new, server = make_host(peer, f"{peer.name}-old"), make_host(peer, f"{peer.name}-new"), str(uuid4())
    assert claim(peer, server, old)
    assert claim(peer, server, new)
    assert peer.allocations(server) == {old: SERVER, new: SERVER}

    assert peer.client.remove_provider_tree_from_instance_allocation(peer.context, server, old)

    assert peer.allocations(server) == {new: SERVER}
    assert not any(peer.usages(old).values())


def test_a_migration_takes_over_what_the_server_had(peer: Peer) -> None:
    host, server, migration = make_host(peer), str(uuid4()), str(uuid4())
    assert claim(peer, server, host)

    assert peer.client.move_allocations(peer.context, server, migration)

    assert (peer.allocations(server), peer.allocations(migration)) == ({}, {host: SERVER})
    assert peer.client.move_allocations(peer.context, server, migration)  # the client may repeat a completed move
    assert peer.client.move_allocations(peer.context, migration, server)
    assert (peer.allocations(server), peer.allocations(migration)) == ({host: SERVER}, {})
    assert peer.usages(host) == SERVER


def test_an_attached_device_is_added_and_taken_away(peer: Peer) -> None:
    host, server = make_host(peer), str(uuid4())
    assert claim(peer, server, host)

    peer.client.add_resources_to_instance_allocation(peer.context, server, {host: {"resources": {"VCPU": 1}}})
    assert peer.allocations(server)[host]["VCPU"] == 3

    peer.client.remove_resources_from_instance_allocation(peer.context, server, {host: {"resources": {"VCPU": 1}}})
    assert peer.allocations(server)[host]["VCPU"] == 2


def test_put_allocations_replaces_and_notices_another_writer(peer: Peer) -> None:
    host, server = make_host(peer), str(uuid4())
    payload = {
        "allocations": {host: {"resources": {"VCPU": 1}}},
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": None,
    }
    assert peer.client.put_allocations(peer.context, server, payload)

    with pytest.raises(exception.AllocationUpdateFailed):  # fails because the consumer already exists
        peer.client.put_allocations(peer.context, server, payload)

    seen = peer.client.get_allocs_for_consumer(peer.context, server)
    payload |= {"consumer_generation": seen["consumer_generation"], "allocations": {host: {"resources": {"VCPU": 4}}}}
    assert peer.client.put_allocations(peer.context, server, payload)
    assert peer.allocations(server) == {host: {"VCPU": 4}}


def test_a_deleted_server_leaves_nothing(peer: Peer) -> None:
    host, first, second = make_host(peer), str(uuid4()), str(uuid4())
    assert claim(peer, first, host)
    assert claim(peer, second, host)

    assert peer.client.delete_allocation_for_instance(peer.context, first)
    assert peer.client.delete_allocation_for_instance(peer.context, second, force=True)

    assert not peer.client.delete_allocation_for_instance(peer.context, first)
    assert not peer.client.delete_allocation_for_instance(peer.context, second, force=True)
    assert not any(peer.usages(host).values())


def test_a_stale_view_of_a_provider_is_a_conflict_and_then_redriven(peer: Peer) -> None:
    host = make_host(peer)
    tree = peer.client.get_provider_tree_and_ensure_root(peer.context, host)
    generation = peer.show(f"/resource_providers/{host}")["generation"]
    body = {"resource_provider_generation": generation, "traits": [OWN_TRAIT]}
    assert peer.ask("PUT", f"/resource_providers/{host}/traits", body)[0] == 200

    tree.update_inventory(host, {"VCPU": inventory(32)})
    with pytest.raises(exception.ResourceProviderUpdateConflict):
        peer.client.update_from_provider_tree(peer.context, tree)
    assert peer.inventories(host)["VCPU"] == 8

    tree = seen_anew(peer, host)
    tree.update_inventory(host, {"VCPU": inventory(32)})
    peer.client.update_from_provider_tree(peer.context, tree)
    assert peer.inventories(host) == {"VCPU": 32}
    assert peer.show(f"/resource_providers/{host}/traits")["traits"] == [OWN_TRAIT]


def test_an_inventory_in_use_is_not_taken_away(peer: Peer) -> None:
    host = make_host(peer)
    assert claim(peer, str(uuid4()), host)
    tree = seen_anew(peer, host)
    tree.update_inventory(host, {"VCPU": inventory(8)})

    with pytest.raises(exception.InventoryInUse):
        peer.client.update_from_provider_tree(peer.context, tree)

    assert set(peer.inventories(host)) == set(HOST)


def test_a_reshape_moves_inventory_and_what_is_allocated_of_it(peer: Peer) -> None:
    host, server = make_host(peer), str(uuid4())
    assert claim(peer, server, host)
    tree = seen_anew(peer, host)
    allocations = peer.client.get_allocations_for_provider_tree(peer.context, peer.name)
    assert set(allocations) == {server}
    disks = tree.new_child(f"{peer.name}-disks", host)
    tree.update_inventory(disks, {"DISK_GB": inventory(200)})
    tree.update_inventory(host, {name: HOST[name] for name in ("VCPU", "MEMORY_MB")})
    resources = allocations[server]["allocations"][host]["resources"]
    allocations[server]["allocations"][disks] = {"resources": {"DISK_GB": resources.pop("DISK_GB")}}

    peer.client.update_from_provider_tree(peer.context, tree, allocations=allocations)

    assert peer.inventories(host) == {"VCPU": 8, "MEMORY_MB": 16_384}
    assert peer.inventories(disks) == {"DISK_GB": 200}
    assert peer.allocations(server) == {host: {"VCPU": 2, "MEMORY_MB": 2_048}, disks: {"DISK_GB": 20}}
    assert peer.usages(disks) == {"DISK_GB": 20}


def test_a_reshape_with_a_stale_consumer_changes_nothing(peer: Peer) -> None:
    host, server = make_host(peer), str(uuid4())
    assert claim(peer, server, host)
    tree = seen_anew(peer, host)
    allocations = peer.client.get_allocations_for_provider_tree(peer.context, peer.name)
    allocations[server]["consumer_generation"] += 7
    tree.update_inventory(host, {**HOST, "VCPU": inventory(64)})

    with pytest.raises(exception.PlacementReshapeConflict):
        peer.client.update_from_provider_tree(peer.context, tree, allocations=allocations)

    assert peer.inventories(host)["VCPU"] == 8
    assert peer.allocations(server) == {host: SERVER}


def test_usage_is_counted_for_quotas(peer: Peer) -> None:
    host, project = make_host(peer), f"project-{peer.name}"
    request = {"allocations": {host: {"resources": SERVER}}}
    for user in ("one", "one", "two"):
        assert peer.client.claim_resources(peer.context, str(uuid4()), request, project, user, "1.36")

    counts = peer.client.get_usages_counts_for_quota(peer.context, project, "one")

    assert counts == {"project": {"cores": 6, "ram": 6_144}, "user": {"cores": 4, "ram": 4_096}}
    assert peer.client.get_usages_counts_for_limits(peer.context, project) == {
        "VCPU": 6,
        "MEMORY_MB": 6_144,
        "DISK_GB": 60,
    }


def test_a_host_that_is_removed_takes_its_tree_along(peer: Peer) -> None:
    host = make_host(peer)
    tree = peer.client.get_provider_tree_and_ensure_root(peer.context, host)
    tree.new_child(f"{peer.name}-child", host)
    peer.client.update_from_provider_tree(peer.context, tree)
    node = objects.ComputeNode(uuid=host, host=peer.name, hypervisor_hostname=peer.name)

    peer.client.delete_resource_provider(peer.context, node)

    assert peer.ask("GET", f"/resource_providers/{host}")[0] == 404
    assert peer.show(f"/resource_providers?in_tree={host}")["resource_providers"] == []


def test_a_host_in_use_stays(peer: Peer) -> None:
    host = make_host(peer)
    assert claim(peer, str(uuid4()), host)

    with pytest.raises(exception.ResourceProviderInUse):
        peer.client._delete_provider(host)

    assert peer.usages(host) == SERVER
