# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace

import pytest

from kilonova.scheduler import aggregate_values as utils

HOST = SimpleNamespace(
    aggregates=[
        SimpleNamespace(metadata={"ssd": "true, maybe", "ram": "2.5"}),
        SimpleNamespace(metadata={"ssd": "false", "size": "1"}),
    ],
    instances={"i1": object()},
)


def test_values_of_a_key_stay_as_they_are_written() -> None:
    assert utils.aggregate_values_from_key(HOST, "ssd") == {"true, maybe", "false"}
    assert utils.aggregate_values_from_key(HOST, "unknown") == set()


def test_metadata_of_all_aggregates_are_merged_with_lists_split() -> None:
    assert utils.aggregate_metadata_get_by_host(HOST) == {
        "ssd": {"true", "maybe", "false"},
        "ram": {"2.5"},
        "size": {"1"},
    }
    assert utils.aggregate_metadata_get_by_host(HOST, key="size") == {"ssd": {"false"}, "size": {"1"}}


def test_the_smallest_number_or_another_choice_is_returned() -> None:
    assert utils.validate_num_values({"10", "9"}) == 9
    assert utils.validate_num_values({"10", "9"}, based_on=max) == 10
    assert utils.validate_num_values(set(), default=4) == 4
    with pytest.raises(ValueError, match="many"):
        utils.validate_num_values({"many", "1"})


def test_one_uuid_and_several_are_looked_for() -> None:
    assert utils.instance_uuids_overlap(HOST, "i1")
    assert utils.instance_uuids_overlap(HOST, ["i2", "i1"])
    assert not utils.instance_uuids_overlap(HOST, [])


def test_a_multiplier_that_is_no_number_falls_back_to_the_configured_one() -> None:
    assert utils.get_weight_multiplier(HOST, "ram", 1.0) == 2.5
    assert utils.get_weight_multiplier(HOST, "unknown", 1.5) == 1.5
    assert utils.get_weight_multiplier(HOST, "ssd", 2.0) == 2.0
