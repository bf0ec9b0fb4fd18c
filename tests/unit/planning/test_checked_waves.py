# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

from tests.unit.planning.test_drain import cloud_of, server

from kilonova.model.server_migration import MoveKind
from kilonova.planning.checked_waves import checked
from kilonova.planning.plan import PlannedMove
from kilonova.scheduler.filters import IoOpsFilter

COLD = MoveKind.COLD_MIGRATE


def test_a_refused_move_waits_for_a_later_wave_or_is_returned() -> None:
    one, two, big = server("a", 0, 1), server("b", 0, 1), server("c", 0, 9)
    cloud = cloud_of([12, 4], one, two, big)
    cloud.engine = replace(cloud.engine, filters=(*cloud.engine.filters, IoOpsFilter(max_io_ops_per_host=1)))
    moves = [PlannedMove(each, 0, 1, COLD) for each in (one, two, big)]
    done, refused = checked(cloud, moves, lambda: None)
    assert [(move.server.uuid, move.wave) for move in done] == [("a", 0), ("b", 1)]
    assert [stay.server for stay in refused] == [big]
    assert cloud.row_of(one) == 0, "the cloud does not change"
