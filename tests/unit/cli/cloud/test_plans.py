# SPDX-License-Identifier: Apache-2.0
"""The wait for a plan: through outages, until its end or its pause."""

from itertools import count
from typing import Any

import pytest

from kilonova.cli.cloud.plans import drain_of, drain_of_any, is_complete, wait_for_plan
from kilonova.errors import Unavailable


def plan(state: str, running: int = 0, **more: Any) -> dict[str, Any]:
    progress = {"planned": 1, "running": running, "done": 0}
    return {"id": "p", "state": state, "progress": progress, "message": "m", "stays": [], "kind": "drain", **more}


class Cloud:
    """A cloud that answers with one plan after the other; None stands for no answer."""

    def __init__(self, *plans: dict[str, Any] | None) -> None:
        self.plans = list(plans)
        self.queries: list[dict[str, str]] = []

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> dict[str, Any]:
        del service, version
        self.queries.append(query)
        if path == "/plans":
            return {"plans": [each for each in self.plans if each is not None and each["state"] == query["state"]]}
        found = self.plans.pop(0) if len(self.plans) > 1 else self.plans[0]
        if found is None:
            raise Unavailable("away")
        return {"plan": found}


@pytest.mark.parametrize("last", [plan("done"), plan("failed"), plan("cancelled"), plan("paused")])
def test_the_end_of_a_plan_is_waited_for(last: dict[str, Any]) -> None:
    cloud = Cloud(plan("running", 1), None, plan("cancelling"), plan("paused", running=1), last)
    pauses: list[float] = []
    assert wait_for_plan(cloud, "p", pause=pauses.append) == last
    assert len(pauses) == 4
    assert cloud.queries == [{"moves": "false"}] * 5 + [{}], "moves are read once"


def test_a_cloud_that_stays_away_is_an_error() -> None:
    passing = count(step=50)
    with pytest.raises(Unavailable):
        wait_for_plan(Cloud(None), "p", pause=lambda _: None, clock=lambda: float(next(passing)))


def test_a_plan_is_complete_if_nothing_stays() -> None:
    assert is_complete(plan("done"))
    assert not is_complete(plan("failed"))
    assert not is_complete({**plan("done"), "stays": [{}]})


def test_the_plan_that_drains_hosts_is_found() -> None:
    cloud = Cloud(
        plan("cancelling", request={"hosts": ["a", "b"]}),
        plan("running", request={"hosts": ["a"]}, kind="evacuate"),
        plan("paused", request={"hosts": ["b", "c"]}),
    )
    assert drain_of(cloud, ["a", "b"]) is None
    assert drain_of(cloud, ["c", "b"]) == cloud.plans[2]
    assert drain_of_any(cloud, ["a"]) == cloud.plans[0]
    assert drain_of_any(cloud, ["z"]) is None
