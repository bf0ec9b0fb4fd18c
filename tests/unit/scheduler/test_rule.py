# SPDX-License-Identifier: Apache-2.0
from kilonova.scheduler.filters import CoreFilter
from kilonova.scheduler.plug_in_rules import PlugInFilter
from kilonova.scheduler.rule import rule_name


def test_a_rule_is_called_by_its_class_and_an_adapter_by_the_class_that_it_adapts() -> None:
    assert rule_name(CoreFilter()) == "CoreFilter"
    assert rule_name(PlugInFilter("Theirs", object())) == "Theirs"
