# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.model.server_group import GroupView
from kilonova.scheduler.filters import ServerGroupAffinityFilter, ServerGroupAntiAffinityFilter

HOSTS = (host("a", instances=("member",)), host("b"), host("c"), host("c", node="c2"))


def group(policy: str, hosts: dict[str, int], most: int = 1) -> GroupView:
    return GroupView("group", policy, most, hosts)


@pytest.mark.parametrize(
    ("view", "instances", "expected"),
    [
        (None, ("new",), [True, True, True, True]),
        (group("affinity", {"a": 1}), ("new",), [True, True, True, True]),
        (group("anti-affinity", {}), ("new",), [True, True, True, True]),
        (group("anti-affinity", {"a": 1}), ("new",), [False, True, True, True]),
        (group("anti-affinity", {"a": 0}), ("new",), [True, True, True, True]),
        (group("anti-affinity", {"a": 1, "c": 2}, 2), ("new",), [True, True, False, False]),
        (group("anti-affinity", {"a": 1, "b": 1}), ("member",), [True, False, True, True]),
        (group("anti-affinity", {"a": 1, "b": 1}), ("member", "new"), [False, False, True, True]),
        (group("anti-affinity", {"gone": 1}), (), [True, True, True, True]),
    ],
)
def test_members_are_kept_apart(view: GroupView | None, instances: tuple[str, ...], expected: list[bool]) -> None:
    spec = request(group=view, instance_uuids=instances)
    assert ServerGroupAntiAffinityFilter().passes(table(*HOSTS), spec).tolist() == expected


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (None, [True, True, True, True]),
        (group("anti-affinity", {"a": 1}), [True, True, True, True]),
        (group("affinity", {}), [True, True, True, True]),
        (group("affinity", {"a": 0}), [True, True, True, True]),
        (group("affinity", {"a": 1, "c": 1}), [True, False, True, True]),
        (group("affinity", {"gone": 1}), [False, False, False, False]),
    ],
)
def test_members_are_kept_together(view: GroupView | None, expected: list[bool]) -> None:
    assert ServerGroupAffinityFilter().passes(table(*HOSTS), request(group=view)).tolist() == expected
