# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.cli.wiring.changed_rules import ChangedRules
from kilonova.config.load import load_settings
from kilonova.errors import InvalidRequest
from kilonova.scheduler.engine.rule_change import RuleChange, RuleSet
from kilonova.scheduler.rule import rule_name
from kilonova.scheduler.weighers import WEIGHERS

CONF = """[database]
connection = sqlite://
[filter_scheduler]
enabled_filters = ComputeFilter,RamFilter
[scheduler]
image_metadata_prefilter = true
"""


@pytest.fixture
def rules(tmp_path: Path) -> ChangedRules:
    (tmp_path / "k.conf").write_text(CONF)
    return ChangedRules(load_settings([str(tmp_path / "k.conf")]))


def names(rules: RuleSet, kind: str) -> list[str]:
    return [rule_name(each) for each in getattr(rules.engine, kind)]


def test_no_change_gives_the_configured_rules(rules: ChangedRules) -> None:
    found = rules.rebuild(RuleChange())
    assert names(found, "filters") == ["ComputeFilter", "RamFilter"]
    assert names(found, "weighers") == list(WEIGHERS)
    assert found.digest == rules.rebuild(RuleChange()).digest
    assert found.digest != rules.rebuild(RuleChange(options={"host_subset_size": "2"})).digest
    assert not RuleChange()


def test_rules_are_enabled_and_disabled(rules: ChangedRules) -> None:
    change = RuleChange(
        enable=("IoOpsFilter", "isolate_aggregates", "RAMWeigher"),
        disable=("RamFilter", "CPUWeigher", "transform_image_metadata", "owner_nova_filter"),
    )
    found = rules.rebuild(change)
    assert names(found, "filters") == ["ComputeFilter", "IoOpsFilter"]
    assert names(found, "weighers") == [name for name in WEIGHERS if name != "CPUWeigher"]
    request_filters = names(found, "request_filters")
    assert "isolate_aggregates" in request_filters
    assert not {"transform_image_metadata", "owner_nova_filter"} & {*request_filters}


def test_options_and_multipliers_change(rules: ChangedRules) -> None:
    options = {"filter_scheduler.host_subset_size": "3", "metrics.required": "false", "service_down_time": "5"}
    found = rules.rebuild(RuleChange(options=options, weights={"RAMWeigher": -2.0}))
    by_name = {rule_name(each): each for each in found.engine.weighers}
    assert found.engine.host_subset_size == 3
    assert getattr(by_name["RAMWeigher"], "multiplier", None) == -2.0
    assert getattr(by_name["MetricsWeigher"], "required", None) is False
    assert getattr(found.engine.filters[0], "service_down_time_s", None) == 5


@pytest.mark.parametrize(
    "change",
    [
        RuleChange(options={"weight_classes": "os.getcwd"}),
        RuleChange(options={"scheduler.request_filters": "os.getcwd"}),
        RuleChange(options={"nova_import_compat": "true"}),
        RuleChange(options={"service_down_time": "soon"}),
        RuleChange(enable=("os.getcwd",)),
        RuleChange(disable=("IoOpsFilter",)),
        RuleChange(weights={"IoOpsFilter": 1.0}),
        RuleChange(filters=("os:getcwd",)),
    ],
)
def test_no_request_names_code_or_unknown_rules(rules: ChangedRules, change: RuleChange) -> None:
    with pytest.raises(InvalidRequest):
        rules.rebuild(change)
