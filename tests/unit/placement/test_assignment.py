# SPDX-License-Identifier: Apache-2.0
from collections import Counter
from itertools import chain, product
from random import Random

import pytest

from kilonova.placement.assignment import assign


def can_all_be_served(options: list[list[int]], needs: list[int], room: dict[int, int]) -> bool:
    """Try everything."""
    units = [givers for givers, count in zip(options, needs, strict=True) for _ in range(count)]
    return any(all(count <= room[giver] for giver, count in Counter(given).items()) for given in product(*units))


@pytest.mark.parametrize("stay_first", [False, True])
def test_all_are_served_exactly_when_there_is_a_way(stay_first: bool) -> None:
    rng, seen = Random(3), set()
    for _ in range(300):
        room = {giver: rng.randint(1, 2) for giver in range(rng.randint(1, 4))}
        options = [rng.sample(list(room), rng.randint(1, len(room))) for _ in range(rng.randint(1, 3))]
        needs = [rng.randint(1, 2) for _ in options]
        given = assign(options, needs, room, stay_first=stay_first)
        assert (given is not None) == can_all_be_served(options, needs, room)
        seen.add(given is not None)
        if given is not None:
            assert [len(each) for each in given] == needs
            assert all({*each} <= {*usable} for each, usable in zip(given, options, strict=True))
            assert all(count <= room[giver] for giver, count in Counter(chain(*given)).items())
    assert seen == {False, True}


def test_who_can_go_elsewhere_makes_room() -> None:
    assert assign([[0, 1], [0]]) == [[1], [0]]
    assert assign([[0], [0]]) is None


def test_the_best_is_given_unless_nobody_is_to_move_for_it() -> None:
    options = [[0, 1], [0, 2]]
    assert assign(options) == [[1], [0]]
    assert assign(options, stay_first=True) == [[0], [2]]


def test_moves_are_told() -> None:
    moved: list[int] = []
    assign([[0, 1], [0]], on_move=moved.append)
    assert moved == [0]
