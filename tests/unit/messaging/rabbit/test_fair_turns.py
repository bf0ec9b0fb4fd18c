# SPDX-License-Identifier: Apache-2.0
from kilonova.messaging.rabbit.fair_turns import FairTurns


def test_everybody_has_a_turn_however_much_others_bring() -> None:
    turns = FairTurns()
    done: list[str] = []
    for what in ("a1", "a2", "a3", "b1", "c1", "b2"):
        turns.add(what[0], lambda what=what: done.append(what))  # type: ignore[misc]
    for _ in range(4):
        turns.run_next()
    turns.add("d", lambda: done.append("d1"))
    for _ in range(3):
        turns.run_next()
    assert done == ["a1", "b1", "c1", "a2", "b2", "a3", "d1"]
