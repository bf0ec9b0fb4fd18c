# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.small_cloud import aggregate, flavor, host, request, table

from kilonova.scheduler.explanations.changes import apply_changes
from kilonova.scheduler.explanations.host_changes import free_change, host_changes, instances_change, io_ops_change

HOSTS = table(
    host("a", num_instances=3, num_io_ops=2, traits=frozenset({"CUSTOM_B"})),
    host("b"),
    aggregates=(aggregate(0, ("b",), ssd="false", instance_type="m9"),),
)


def kinds(spec: object) -> set[tuple[str, str]]:
    return {(change.kind, change.name) for change in host_changes(HOSTS, spec)}  # type: ignore[arg-type]


def test_only_changes_that_the_cloud_and_the_request_call_for_are_offered() -> None:
    plain = {("aggregate", "aggregate0"), ("metadata", "aggregate0: instance_type")}
    assert kinds(request()) == plain
    assert kinds(request({"trait:CUSTOM_A": "required"})) == plain | {("trait of host", "CUSTOM_A")}
    assert kinds(request({"ssd": "true"})) == plain | {("metadata", "aggregate0: ssd")}
    assert kinds(request({"ssd": ">= 2"})) == plain, "an operator is no value to set"
    assert kinds(request(flavor=flavor(name="m9"))) == {("aggregate", "aggregate0")}


def test_metadata_keep_their_present_values() -> None:
    change = next(each for each in host_changes(HOSTS, request({"ssd": "true"})) if each.name == "aggregate0: ssd")
    assert (change.old, change.new) == ("false", "false,true")
    hosts, _ = apply_changes(HOSTS, request(), [change])
    assert hosts.aggregates.aggregates[0].metadata["ssd"] == "false,true"


def test_a_trait_is_given_to_a_host_and_taken_from_it() -> None:
    spec = request({"trait:CUSTOM_A": "required", "trait:CUSTOM_B": "forbidden"})
    traits = [each.at("a", "a") for each in host_changes(HOSTS, spec) if each.kind == "trait of host"]
    hosts, _ = apply_changes(HOSTS, spec, traits)
    assert hosts.has_trait("CUSTOM_A").tolist() == [True, False]
    assert not hosts.has_trait("CUSTOM_B").any()


def test_a_host_joins_and_leaves_an_aggregate() -> None:
    join, leave = (each for each in host_changes(HOSTS, request()) if each.kind == "aggregate")
    hosts, _ = apply_changes(HOSTS, request(), [join.at("a", "a"), leave.at("b", "b")])
    assert hosts.aggregates.membership[0].tolist() == [True, False]
    assert hosts.aggregates.aggregates[0].hosts == ("a",)


def test_load_is_taken_off_one_host() -> None:
    load = [instances_change(2).at("a", "a"), io_ops_change(1).at("a", "a"), free_change("VCPU", 1, 2).at("a", "a")]
    hosts, _ = apply_changes(HOSTS, request(), load)
    assert (hosts.num_instances.tolist(), hosts.num_io_ops.tolist()) == ([1, 0], [1, 0])
    assert [change.size for change in load] == [2.0, 1.0, 0.5]
