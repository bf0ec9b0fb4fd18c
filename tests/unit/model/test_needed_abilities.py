# SPDX-License-Identifier: Apache-2.0
"""No action is added to the table without a word on what it needs of a host."""

from kilonova.model.ability import Ability
from kilonova.model.needed_abilities import CORE, NEEDED, NOT_ASKED, QUESTIONS
from kilonova.model.transitions import TRANSITIONS
from kilonova.scheduler.engine.move_rules import NEEDED as NEEDED_THERE


def test_every_action_needs_an_ability_or_is_said_to_need_none() -> None:
    placed = [*NEEDED, *CORE, *NOT_ASKED]
    assert sorted(placed) == sorted(TRANSITIONS), "each in one of the three, and no other"


def test_every_ability_is_needed_for_something() -> None:
    needed = {ability for abilities in (*NEEDED.values(), *QUESTIONS.values()) for ability in abilities}
    needed |= {ability for ability in NEEDED_THERE.values() if ability is not None}
    # Images are fetched beforehand by hosts as far as they keep any: that is no action of a server.
    assert set(Ability) - needed == {Ability.IMAGE_CACHE}
