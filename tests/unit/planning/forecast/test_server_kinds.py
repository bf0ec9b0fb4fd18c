# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.planning.forecast.scenario import ScenarioError
from kilonova.planning.forecast.server_kinds import KindName, Kinds
from support.forecasts import CATALOG, forecast_of, hosts, scenario


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"flavors": {"odd": 1}}, r"arrivals\[0\].flavors: unknown flavor 'odd'; known: large, small"),
        ({"images": {"odd": 1}}, r"arrivals\[0\].images: unknown image 'odd'; known: tiny"),
        ({"zones": {"odd": 1}}, r"arrivals\[0\].zones: unknown zone 'odd'"),
        ({"group": {"policy": "odd", "size": 2}}, r"arrivals\[0\].group.policy: must be one of"),
    ],
)
def test_unknown_names_are_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ScenarioError, match=text):
        forecast_of(scenario(arrivals=[{"count": 3, "flavors": {"small": 1}, **fields}]), hosts(1))


def test_equal_names_are_one_kind() -> None:
    kinds = Kinds(CATALOG)
    names = KindName("small"), KindName("small", "tiny"), KindName("small"), KindName("small", zone="nova")
    assert [kinds.number(name, "arrivals[0]") for name in names] == [0, 1, 0, 2]
    assert [kind.spec.availability_zone for kind in kinds.all] == [None, None, "nova"]
    assert kinds.all[0].spec.query.resources == {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}
