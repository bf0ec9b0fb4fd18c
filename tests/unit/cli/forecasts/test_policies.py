# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.cli.forecasts.policies import load_policy
from kilonova.errors import ConfigurationError


def written(folder: Path, text: str) -> Path:
    path = folder / "pack.yaml"
    path.write_text(text)
    return path


def test_a_policy_of_the_present_cloud_has_texts(tmp_path: Path) -> None:
    text = "options:\n  filter_scheduler:\n    enabled_filters: [A, B]\n    shuffle_best_same_weighed_hosts: true\n"
    text += "    cpu_weight_multiplier: -1.5\n  metrics: {required: false}\n"
    assert load_policy(written(tmp_path, text)).of_present_cloud() == {
        "name": "pack",
        "options": {
            "enabled_filters": "A,B",
            "shuffle_best_same_weighed_hosts": "true",
            "cpu_weight_multiplier": "-1.5",
            "metrics.required": "false",
        },
    }


def test_only_options_of_rules_can_change_in_the_present_cloud(tmp_path: Path) -> None:
    policy = load_policy(written(tmp_path, "name: odd\noptions: {DEFAULT: {cpu_allocation_ratio: 2}}"))
    with pytest.raises(ConfigurationError, match="cannot change the section DEFAULT"):
        policy.of_present_cloud()
