# SPDX-License-Identifier: Apache-2.0
from typing import ClassVar

import pytest

from kilonova.scheduler.depends_on import DependsOn, dependence_of
from kilonova.scheduler.filters import FILTERS
from kilonova.scheduler.filters.num_instances import NumInstancesFilter
from kilonova.scheduler.nova_compat.adapters import HostFilterAdapter
from kilonova.scheduler.plug_in_rules import PlugInFilter
from kilonova.scheduler.weighers import WEIGHERS


class Quiet:
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS


class Louder(Quiet):
    """Inherits a declaration that may be wrong for it."""


@pytest.mark.parametrize("name", [*FILTERS, *WEIGHERS])
def test_every_built_in_rule_says_what_it_depends_on(name: str) -> None:
    assert dependence_of((FILTERS | WEIGHERS)[name]()) is not None


def test_only_the_declaration_of_the_class_itself_counts() -> None:
    assert dependence_of(NumInstancesFilter()) == DependsOn.ROWS
    assert dependence_of(PlugInFilter("Quiet", Quiet())) == DependsOn.ROWS
    assert dependence_of(PlugInFilter("Louder", Louder())) is None
    assert dependence_of(HostFilterAdapter("Quiet", Quiet())) is None
