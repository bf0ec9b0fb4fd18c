# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.compute import able_driver
from kilonova.compute.able_driver import AbleDriver
from kilonova.compute.virt.abilities import CanEndMoves, CanMigrateLive, CanMoveCold, CanPause
from kilonova.errors import AbilityMissing
from kilonova.model.ability import Ability


def able(monkeypatch: pytest.MonkeyPatch, *abilities: Ability) -> AbleDriver:
    driver: Any = object()
    monkeypatch.setattr(able_driver, "abilities_of", lambda _driver: frozenset(abilities))
    return AbleDriver("node1", driver)


def test_a_missing_ability_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pausing = able(monkeypatch, Ability.PAUSE)
    assert pausing.need(CanPause) is pausing.driver
    assert pausing.find(CanMigrateLive) is None
    with pytest.raises(AbilityMissing) as caught:
        pausing.need(CanMigrateLive)
    assert caught.value.fields == {"ability": Ability.LIVE_MIGRATE}


@pytest.mark.parametrize("ability", [Ability.COLD_MIGRATE, Ability.RESIZE_SAME_HOST])
def test_any_kind_of_cold_move_implies_that_moves_can_end(monkeypatch: pytest.MonkeyPatch, ability: Ability) -> None:
    moving = able(monkeypatch, ability)
    assert moving.find(CanEndMoves) is moving.driver
    assert moving.find(CanMoveCold) is moving.driver
    assert moving.find(CanPause) is None


def test_moves_to_other_hosts_and_resizes_in_place_are_two_abilities(monkeypatch: pytest.MonkeyPatch) -> None:
    migrating = able(monkeypatch, Ability.COLD_MIGRATE)
    assert migrating.need_cold_moves("node2") is migrating.driver
    with pytest.raises(AbilityMissing, match=str(Ability.RESIZE_SAME_HOST)):
        migrating.need_cold_moves("node1")
    resizing = able(monkeypatch, Ability.RESIZE_SAME_HOST)
    assert resizing.need_cold_moves("node1") is resizing.driver
    with pytest.raises(AbilityMissing, match=str(Ability.COLD_MIGRATE)):
        resizing.need_cold_moves("node2")
