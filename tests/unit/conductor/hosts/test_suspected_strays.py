# SPDX-License-Identifier: Apache-2.0
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from kilonova.conductor.hosts import suspected_strays
from kilonova.conductor.hosts.suspected_strays import SuspectedStrays
from kilonova.messaging.messages import StepId, StepReply
from kilonova.model.instance import PowerState


class Cloud:
    """Servers ``own`` are recorded on their host. ``asked``: the questions to hosts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_act = True
        self.asked: list[tuple[str, list[str]]] = []
        database: Any = SimpleNamespace(read=lambda: nullcontext(None))
        reports: Any = SimpleNamespace(ask=lambda host, uuids: self.asked.append((host, uuids)))
        monkeypatch.setattr(suspected_strays.guest_placement, "belongs", lambda _c, _host, uuid: uuid == "own")
        self.strays = SuspectedStrays(database, reports, lambda: self.may_act)


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    return Cloud(monkeypatch)


def test_a_host_is_asked_for_guests_that_are_not_recorded_there(cloud: Cloud) -> None:
    cloud.strays.look_at("own", "node1")
    cloud.strays.look_at("stray", "node1")
    cloud.strays.look_at("stray", None)
    cloud.strays.look_at("", "node1")
    assert cloud.asked == [("node1", ["stray"])]


def test_a_late_reply_without_a_guest_asks_for_none(cloud: Cloud) -> None:
    step = StepId("w", "s", 1)
    cloud.strays.look_at_reply(StepReply(step, "node1", "stray", power_state=PowerState.NOSTATE))
    assert cloud.asked == []
    cloud.strays.look_at_reply(StepReply(step, "node1", "stray", power_state=PowerState.RUNNING))
    assert cloud.asked == [("node1", ["stray"])]


def test_suspicions_of_a_process_without_its_lease_are_kept_until_it_may_act_again(cloud: Cloud) -> None:
    cloud.may_act = False
    cloud.strays.look_at("stray", "node1")
    cloud.strays.look_at_waiting()  # still without its lease
    assert cloud.asked == []
    cloud.may_act = True
    cloud.strays.look_at_waiting()
    cloud.strays.look_at_waiting()
    assert cloud.asked == [("node1", ["stray"])]
