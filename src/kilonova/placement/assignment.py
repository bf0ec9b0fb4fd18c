# SPDX-License-Identifier: Apache-2.0
"""Bipartite matching with capacities: each *seeker* needs units, and each *giver* has units for certain seekers.

If all usable givers of a seeker are full, another seeker is moved from one of these givers to a different one, which
can require further moves. Such a chain of moves is an *augmenting path*. If no such path exists, no assignment
satisfies all seekers.
"""

from collections.abc import Callable, Mapping, Sequence


def assign(
    options: Sequence[Sequence[int]],
    needs: Sequence[int] | None = None,
    room: Mapping[int, int] | None = None,
    *,
    stay_first: bool = False,
    on_move: Callable[[int], None] = lambda _seeker: None,
) -> list[list[int]] | None:
    """Return the givers of each seeker, one entry per unit, or None if no assignment satisfies all seekers.

    ``options``: for each seeker, the givers that it can use, best first. ``needs``: number of units that each seeker
    needs; None means 1 each. ``room``: number of units of each giver; None means 1 each.
    ``stay_first``: if the best giver of a seeker is full, use a free giver instead of moving another seeker.
    ``on_move``: called with each seeker that the search tries to move; an exception cancels the search.
    """
    holders: dict[int, list[int]] = {}

    def is_full(giver: int) -> bool:
        return len(holders.get(giver, ())) >= (1 if room is None else room[giver])

    def serve(seeker: int, seen: set[int]) -> bool:
        for giver in sorted(options[seeker], key=is_full) if stay_first else options[seeker]:
            if giver in seen:
                continue
            seen.add(giver)
            held = holders.setdefault(giver, [])
            if is_full(giver):
                moved = next((each for each in sorted({*held} - {seeker}) if move(each, seen)), None)
                if moved is None:
                    continue
                held.remove(moved)
            held.append(seeker)
            return True
        return False

    def move(seeker: int, seen: set[int]) -> bool:
        on_move(seeker)
        return serve(seeker, seen)

    for seeker in range(len(options)):
        for _ in range(1 if needs is None else needs[seeker]):
            if not serve(seeker, set()):
                return None
    got: list[list[int]] = [[] for _ in options]
    for giver, held in holders.items():
        for seeker in held:
            got[seeker].append(giver)
    return got
