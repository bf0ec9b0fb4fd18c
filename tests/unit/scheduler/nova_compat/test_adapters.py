# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.scheduler.filters import BaseHostFilter
from kilonova.scheduler.host_table import ALL_ROWS
from kilonova.scheduler.nova_compat.adapters import HostFilterAdapter, HostWeigherAdapter
from kilonova.scheduler.weighers import BaseHostWeigher

HOSTS = table(host("other", last_seen=5.0), host("compute2", used={"MEMORY_MB": 1024}))
SPEC = request()


class Roomy(BaseHostFilter):
    run_filter_once_per_request = True
    RUN_ON_REBUILD = True

    def host_passes(self, host_state: Any, filter_properties: Any) -> bool:
        return bool(host_state.free_ram_mb > 7000)


class Silent(BaseHostFilter):
    def filter_all(self, filter_obj_list: Any, spec_obj: Any) -> None:
        return None


class Bare:
    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        return bool(host_state.host == "compute2")


def test_an_adapter_judges_the_hosts_that_are_left() -> None:
    roomy = HostFilterAdapter("Roomy", Roomy())
    assert (roomy.run_once, roomy.runs_on_rebuild) == (True, True)
    assert roomy.passes(HOSTS, SPEC).tolist() == [True, False]
    assert roomy.passes_among(HOSTS, SPEC, np.array([False, True])).tolist() == [False, False]
    assert HostFilterAdapter("Silent", Silent()).passes(HOSTS, SPEC).tolist() == [False, False]
    bare = HostFilterAdapter("Bare", Bare())
    assert (bare.run_once, bare.runs_on_rebuild) == (False, False)
    assert bare.passes(HOSTS, SPEC).tolist() == [False, True]


class Newest(BaseHostWeigher):
    minval = 0

    def weight_multiplier(self, host_state: Any) -> float:
        return 2.0 if host_state.host == "other" else 3.0

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        return float(host_state.service.last_seen_up)


def test_an_adapter_rates_the_hosts_that_passed() -> None:
    adapter = HostWeigherAdapter("Newest", Newest())
    assert (adapter.minimum, adapter.maximum) == (0, None)
    assert np.asarray(adapter.factors(HOSTS, ALL_ROWS)).tolist() == [2.0, 3.0]
    assert adapter.weigh(HOSTS, SPEC, np.array([0])).tolist() == [5.0]
    assert HostWeigherAdapter("x", object()).factors(HOSTS, ALL_ROWS) == 1.0
