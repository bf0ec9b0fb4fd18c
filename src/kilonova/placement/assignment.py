# SPDX-License-Identifier: Apache-2.0
"""Give each of several seekers something that it can use, when some of them can use the same things.

A seeker for whom everything is taken asks those who have it to take something else. Such a chain of moves is an
*augmenting path*; where there is none, there is no way to serve all.
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
    """Return the givers that each seeker got, one entry a unit; None when not all can be served.

    ``options``: for each seeker the givers that it can use, the best first. ``needs``: units of each seeker, and
    ``room``: units of each giver; 1 without.
    ``stay_first``: nobody moves for a seeker that finds room with another giver, however good.
    ``on_move``: is told of each seeker that is asked to move; what it raises ends the search.
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
