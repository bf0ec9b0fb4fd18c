# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.config.load import load_settings
from kilonova.errors import ConfigurationError
from kilonova.scenario.options import conf_text, with_defaults


def test_lists_become_one_line_an_item_and_truths_are_small() -> None:
    text = conf_text({"a": {"many": ["x", "y"], "one": "x,y"}, "b": {"on": True, "n": 3}})
    assert text == "[a]\nmany = x\nmany = y\none = x,y\n\n[b]\non = true\nn = 3\n"


def test_a_value_is_one_line() -> None:
    with pytest.raises(ConfigurationError, match=r"\[a\] b must be one line"):
        conf_text({"a": {"b": "x\n[api]"}})


def test_what_is_set_wins_over_a_default() -> None:
    both = with_defaults({"a": {"x": 1}}, {"a": {"x": 2, "y": 3}, "b": {"z": 4}})
    assert both == {"a": {"x": 1, "y": 3}, "b": {"z": 4}}


def test_the_control_process_reads_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "k.conf"
    options = {
        "database": {"connection": "sqlite://"},
        "scheduler": {"limit_tenants_to_placement_aggregate": True},
        "filter_scheduler": {
            "available_filters": ["a.b", "c.d"],
            "enabled_filters": "X, Y",
            "ram_weight_multiplier": 2.5,
        },
    }
    path.write_text(conf_text(options))
    scheduler = load_settings([str(path)]).scheduler
    assert scheduler.available_filters == ("a.b", "c.d")
    assert scheduler.enabled_filters == ("X", "Y")
    assert scheduler.ram_weight_multiplier == 2.5
    assert scheduler.limit_tenants_to_placement_aggregate
