# SPDX-License-Identifier: Apache-2.0
"""Check of planned waves: all moves are carried out on a branch, each after a decision of the scheduler.

The resources of both hosts are held until the end of a wave. A refused move is tried again in the next waves.
"""

from collections.abc import Callable, Iterable
from itertools import groupby

from kilonova.planning.cloud import BegunMove, Cloud, Held
from kilonova.planning.plan import PlannedMove, Stay
from kilonova.records import replace
from kilonova.scheduler.devices.choice import first_that_gives


def accepted(cloud: Cloud, move: PlannedMove) -> Held | None:
    """Return what the server of a move would hold on its destination; None if the scheduler refuses the move now."""
    hosts = cloud.hosts
    decision = cloud.decide(move.server, move.kind, to=hosts.hosts[move.row])
    best, _ = first_that_gives(decision, hosts, move.server.needs)
    return None if best is None or best.row != move.row else cloud.destination(move.server, move.row)


def checked(
    cloud: Cloud, moves: Iterable[PlannedMove], check: Callable[[], None]
) -> tuple[tuple[PlannedMove, ...], list[Stay]]:
    """Return the moves that are carried out, with their waves, and the servers that the scheduler refuses in all waves.

    ``check``: called regularly; stops the computation by an exception.
    """
    in_order = sorted(moves, key=lambda move: move.wave)
    waves = [list(some) for _, some in groupby(in_order, key=lambda move: move.wave)]
    done: list[PlannedMove] = []
    late: list[PlannedMove] = []
    number = 0
    with cloud.branch():
        while waves or late:
            wanted = [*late, *(waves.pop(0) if waves else ())]
            late = []
            begun: list[BegunMove] = []
            for move in wanted:
                check()
                there = accepted(cloud, move)
                if there is None:
                    late.append(move)
                else:
                    begun.append(cloud.begin_move(move.server, there, move.kind))
                    done.append(replace(move, wave=number))
            for each in begun:
                cloud.end_move(each)
            number += bool(begun)
            if not begun and not waves:
                break
    return tuple(done), [Stay(move.server, "the scheduler refuses the planned move") for move in late]
