# SPDX-License-Identifier: Apache-2.0
from kilonova.model.aggregate import Aggregate
from kilonova.model.flavor import Flavor
from kilonova.model.request_spec import RequestSpec
from kilonova.planning.policy_change import AggregateChange, PolicyChange, changed

SPEC = RequestSpec(Flavor("1", "small", 1, 512, 1, extra_specs={"a": "1", "b": "2"}))


def test_values_are_set_and_removed() -> None:
    assert changed({"b": "1", "a": "2"}, {"a": None, "c": "3"}) == {"b": "1", "c": "3"}


def test_an_aggregate_changes_its_hosts_and_metadata() -> None:
    before = Aggregate(1, "u", "rack", ("n1", "n2"), {"k": "v"})
    after = AggregateChange({"k": None, "z": "1"}, frozenset({"n3", "n2"}), frozenset({"n1"})).of(before)
    assert (after.hosts, after.metadata, after.name) == (("n2", "n3"), {"z": "1"}, "rack")


def test_flavors_are_found_by_id_and_name() -> None:
    change = PolicyChange(flavors={"small": {"a": None}, "1": {"b": "3"}, "other": {"c": "1"}})
    assert change.names_of(SPEC.flavor) == ("1", "small")
    assert change.asked(SPEC).flavor.extra_specs == {"b": "3"}
    assert PolicyChange().asked(SPEC) is SPEC
