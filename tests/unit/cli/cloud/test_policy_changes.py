# SPDX-License-Identifier: Apache-2.0
from kilonova.cli.cloud.policy_changes import change_body


def test_options_of_a_command_are_a_change_of_policy() -> None:
    assert change_body(
        options=["host_subset_size=3", "isolated_hosts="],
        enable=["RamFilter"],
        disable=[],
        multipliers=["RAMWeigher=-1.5"],
        aggregates=["rack:kilonova:only=project=p", "rack:ssd", "2:a="],
        flavors=["m1.small:hw:cpu_policy=dedicated"],
    ) == {
        "options": {"host_subset_size": "3", "isolated_hosts": ""},
        "enable": ["RamFilter"],
        "weights": {"RAMWeigher": -1.5},
        "aggregates": {
            "rack": {"metadata": {"kilonova:only": "project=p", "ssd": None}},
            "2": {"metadata": {"a": ""}},
        },
        "flavors": {"m1.small": {"extra_specs": {"hw:cpu_policy": "dedicated"}}},
    }
