# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.model.ability import Ability
from kilonova.model.host import Capabilities

MOVES = {Ability.COLD_MIGRATE, Ability.LIVE_MIGRATE}


def abilities_of(capabilities: Capabilities) -> set[Ability]:
    return {ability for ability in Ability if capabilities.can(ability)}


def test_a_host_can_do_what_it_reports() -> None:
    assert abilities_of(Capabilities("QEMU", abilities=("cold-migrate", "pause"))) == {
        Ability.COLD_MIGRATE,
        Ability.PAUSE,
    }
    assert abilities_of(Capabilities("fake", abilities=())) == set()


def test_an_ability_of_a_later_release_counts_for_nothing() -> None:
    assert abilities_of(Capabilities("QEMU", abilities=("fly", "pause"))) == {Ability.PAUSE}


@pytest.mark.parametrize(("hypervisor_type", "lacks"), [("fake", set()), ("QEMU", MOVES), ("bhyve", set())])
def test_a_host_of_the_release_before_can_do_what_its_driver_could(hypervisor_type: str, lacks: set[Ability]) -> None:
    assert abilities_of(Capabilities(hypervisor_type)) == set(Ability) - lacks
