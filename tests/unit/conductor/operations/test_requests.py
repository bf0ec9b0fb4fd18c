# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.db import instances, request_specs
from kilonova.errors import Conflict, NotFound
from support.cell import Cell, NewCell, asker, host


@pytest.fixture
def grouped(cell_of: NewCell) -> tuple[Cell, str, str]:
    """A server in a group of its own, and the group."""
    cell = cell_of(host("node1"), host("node2"))
    group = cell.add_group("anti-affinity")
    (uuid,) = cell.boot(group=group)
    cell.work_off()
    return cell, uuid, group


def test_a_server_that_leaves_its_group_makes_room_for_another_one(grouped: tuple[Cell, str, str]) -> None:
    cell, uuid, group = grouped
    requests = cell.conductor.operations.requests
    with pytest.raises(NotFound, match="is no member of server group other"):
        requests.leave_group(uuid, "other", asker("req-1"))
    requests.leave_group(uuid, group, asker("req-2"))
    with pytest.raises(NotFound):
        requests.leave_group(uuid, group, asker("req-3"))
    others = cell.boot(2, group=group)
    cell.work_off()
    assert {cell.instance(other).host for other in others} == {"node1", "node2"}


def test_new_hints_keep_the_group(grouped: tuple[Cell, str, str]) -> None:
    cell, uuid, group = grouped
    requests = cell.conductor.operations.requests
    kept = requests.set_hints(uuid, {"different_host": ("x",), "group": ("another",)}, frozenset({"x"}), asker("req-1"))
    with cell.database.read() as connection:
        instance = instances.get(connection, uuid)
        spec = request_specs.get_many(connection, [instance])[uuid].spec
        assert instances.group_of(connection, uuid) == group
    assert dict(spec.hints) == dict(kept)
    assert kept["different_host"] == ("x",)
    assert spec.unseen_instances == {"x"}


def test_a_server_with_an_operation_under_way_is_left_alone(grouped: tuple[Cell, str, str]) -> None:
    cell, uuid, group = grouped
    cell.power(uuid, "stop")
    for change in (
        lambda: cell.conductor.operations.requests.leave_group(uuid, group, asker("req-1")),
        lambda: cell.conductor.operations.requests.set_hints(uuid, {}, frozenset(), asker("req-2")),
    ):
        with pytest.raises(Conflict, match="Try again when it has ended"):
            change()
