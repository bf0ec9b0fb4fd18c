# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace
from typing import Any

import pytest

from kilonova.compute.orders import carry_out
from kilonova.errors import AbilityMissing
from kilonova.messaging.messages import (
    CacheImages,
    CallOff,
    DestroyGuest,
    DiscardSnapshot,
    FinishMove,
    PauseGuest,
    SetAdminPassword,
    StepId,
)
from kilonova.model.instance import PowerState
from support.one_host import guest

STEP = StepId("w", "s", 1)


class Driver:
    """A driver whose one guest runs. ``calls``: the methods that were called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, method: str) -> Any:
        return lambda *_, **__: self.calls.append(method)

    def list_guests(self) -> dict[str, PowerState]:
        return {"a": PowerState.RUNNING}


def outcome(order: Any, *, is_able: bool = True) -> tuple[PowerState, list[str]]:
    driver = Driver()

    def need(_can: Any) -> Any:
        if not is_able:
            raise AbilityMissing("pause")
        return driver

    able: Any = SimpleNamespace(
        driver=driver, need=need, find=lambda _can: driver if is_able else None, need_cold_moves=need
    )
    nothing: Any = None
    state = carry_out(order, able, nothing, nothing, nothing, nothing, lambda _task: None)
    return state, driver.calls


@pytest.mark.parametrize(
    ("order", "state", "calls"),
    [
        (DestroyGuest(STEP, "a"), PowerState.NOSTATE, ["destroy"]),
        (PauseGuest(STEP, "a"), PowerState.PAUSED, ["pause"]),
        (SetAdminPassword(STEP, "a", "secret"), PowerState.RUNNING, ["set_admin_password"]),
        (SetAdminPassword(STEP, "b", "secret"), PowerState.NOSTATE, ["set_admin_password"]),
        (FinishMove(STEP, guest("a"), "node2", power_on=False), PowerState.SHUTDOWN, ["finish_move"]),
        (CacheImages(STEP, ()), PowerState.NOSTATE, []),
        (CallOff(STEP, "a"), PowerState.RUNNING, []),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_order_reports_the_power_state_that_follows(order: Any, state: PowerState, calls: list[str]) -> None:
    assert outcome(order) == (state, calls)


def test_a_driver_without_snapshots_has_none_to_discard() -> None:
    assert outcome(DiscardSnapshot(STEP, "a"), is_able=False) == (PowerState.RUNNING, [])
    with pytest.raises(AbilityMissing):
        outcome(PauseGuest(STEP, "a"), is_able=False)
