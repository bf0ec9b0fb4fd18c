# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.unit.scheduler.request_filters.applied import NO_AGGREGATES
from tests.unit.scheduler.small_cloud import aggregate, host, request, table

from kilonova.errors import RequestFilterFailed, RuleFailed
from kilonova.scheduler.host_table import ALL_ROWS
from kilonova.scheduler.plug_in_rules import PlugInFilter, PlugInRequestFilter, PlugInWeigher

HOSTS = table(host("a"), host("b"), aggregates=(aggregate(1, ("b",), heat="3"),))


def test_a_filter_without_attributes_gets_careful_defaults() -> None:
    rule = PlugInFilter("Mine", SimpleNamespace(passes=lambda hosts, _spec: hosts.all_hosts))
    assert (rule.run_once, rule.runs_on_rebuild, rule.only_where_placed) == (False, False, False)
    assert (rule.reads, bool(rule.reason)) == (None, True)
    assert rule.passes(HOSTS, request()).all()
    assert PlugInFilter("Mine", SimpleNamespace(run_once=True, reason="no")).reason == "no"


def test_a_weigher_takes_its_multiplier_from_an_aggregate_if_it_names_a_key() -> None:
    assert PlugInWeigher("Mine", SimpleNamespace()).factors(HOSTS, ALL_ROWS) == 1.0
    keyed = PlugInWeigher("Mine", SimpleNamespace(multiplier=2, option="heat"))
    assert np.asarray(keyed.factors(HOSTS, ALL_ROWS)).tolist() == [2.0, 3.0]
    assert np.asarray(keyed.factors(HOSTS, np.array([1]))).tolist() == [3.0]
    own = PlugInWeigher("Mine", SimpleNamespace(factors=lambda _hosts, _rows: 7.0, option="heat"))
    assert own.factors(HOSTS, ALL_ROWS) == 7.0
    assert (keyed.minimum, keyed.maximum) == (None, None)


def filtering(apply: Any) -> PlugInRequestFilter:
    return PlugInRequestFilter("Mine", SimpleNamespace(apply=apply))


def test_a_request_filter_may_change_the_request_or_refuse_it() -> None:
    changed = filtering(lambda spec, _aggregates: replace(spec, project_id="p")).apply(request(), NO_AGGREGATES)
    assert changed.project_id == "p"

    def refuse(_spec: Any, _aggregates: Any) -> Any:
        raise RequestFilterFailed("not here")

    with pytest.raises(RequestFilterFailed, match="not here"):
        filtering(refuse).apply(request(), NO_AGGREGATES)


@pytest.mark.parametrize("apply", [lambda _spec, _aggregates: None, lambda _spec, _aggregates: 1 // 0])
def test_a_request_filter_that_breaks_is_named(apply: Any) -> None:
    with pytest.raises(RuleFailed, match="Mine") as failure:
        filtering(apply).apply(request(), NO_AGGREGATES)
    assert failure.value.fields["rule"] == "Mine"
