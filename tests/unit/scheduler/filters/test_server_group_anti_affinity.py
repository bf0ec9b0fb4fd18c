# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.model.server_group import GroupView
from kilonova.scheduler.filters import ServerGroupAntiAffinityFilter

HOSTS = (host("a", instances=("member",)), host("b"), host("c"), host("c", node="c2"))


def group(hosts: dict[str, int], most: int = 1) -> GroupView:
    return GroupView("group", "anti-affinity", most, hosts)


@pytest.mark.parametrize(
    ("view", "instances", "expected"),
    [
        (None, ("new",), [True, True, True, True]),
        (GroupView("group", "affinity", 1, {"a": 1}), ("new",), [True, True, True, True]),
        (group({}), ("new",), [True, True, True, True]),
        (group({"a": 1}), ("new",), [False, True, True, True]),
        (group({"a": 0}), ("new",), [True, True, True, True]),
        (group({"a": 1, "c": 2}, 2), ("new",), [True, True, False, False]),
        (group({"a": 1, "b": 1}), ("member",), [True, False, True, True]),
        (group({"a": 1, "b": 1}), ("member", "new"), [False, False, True, True]),
        (group({"gone": 1}), (), [True, True, True, True]),
    ],
)
def test_members_are_kept_apart(view: GroupView | None, instances: tuple[str, ...], expected: list[bool]) -> None:
    spec = request(group=view, instance_uuids=instances)
    assert ServerGroupAntiAffinityFilter().passes(table(*HOSTS), spec).tolist() == expected


def test_a_group_on_more_hosts_than_the_table_has_gives_the_same_answer() -> None:
    spread = group({"a": 1, "gone": 1, "far": 1})
    hosts = table(host("a"), host("b"))
    assert ServerGroupAntiAffinityFilter().passes(hosts, request(group=spread)).tolist() == [False, True]
