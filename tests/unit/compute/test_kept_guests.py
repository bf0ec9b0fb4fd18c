# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace
from typing import Any

import pytest

from kilonova.compute import kept_guests
from kilonova.errors import GuestMissing
from kilonova.model.instance import PowerState
from support.one_host import guest


class Driver:
    """A driver without moves. ``calls``: the methods that were called."""

    def __init__(self) -> None:
        self.guests: dict[str, PowerState] = {}
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, method: str) -> Any:
        return lambda *arguments, **named: self.calls.append((method, *arguments, *named.values()))

    def list_guests(self) -> dict[str, PowerState]:
        return self.guests


def able(driver: Driver, moves: Any = None) -> Any:
    return SimpleNamespace(driver=driver, find=lambda _can: moves)


def test_a_driver_without_moves_only_stops_and_starts_the_guest() -> None:
    driver = Driver()
    kept_guests.keep(able(driver), "a")
    kept_guests.confirm_move(able(driver), "a")
    kept_guests.abandon_move(able(driver), "a")
    driver.guests = {"a": PowerState.RUNNING}
    assert kept_guests.return_home(able(driver), guest("a"), power_on=True) is PowerState.RUNNING
    assert driver.calls == [("stop", "a", None), ("start", "a")]


def test_a_guest_that_was_off_stays_off_and_an_absent_one_is_an_error() -> None:
    driver = Driver()
    driver.guests = {"a": PowerState.SHUTDOWN}
    assert kept_guests.return_home(able(driver), guest("a"), power_on=False) is PowerState.SHUTDOWN
    assert driver.calls == []
    with pytest.raises(GuestMissing):
        kept_guests.return_home(able(driver), guest("b"), power_on=True)


def test_a_driver_with_moves_keeps_the_guest_for_no_destination() -> None:
    driver, moves = Driver(), Driver()
    kept_guests.keep(able(driver, moves), "a")
    kept_guests.return_home(able(driver, moves), guest("a"), power_on=True)
    kept_guests.confirm_move(able(driver, moves), "a")
    assert moves.calls == [("move_away", "a", "", None), ("return_home", guest("a"), True), ("confirm_move", "a")]
    assert driver.calls == []
