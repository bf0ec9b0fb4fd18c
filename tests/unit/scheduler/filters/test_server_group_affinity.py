# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.model.server_group import GroupView
from kilonova.scheduler.filters import ServerGroupAffinityFilter

HOSTS = (host("a", instances=("member",)), host("b"), host("c"), host("c", node="c2"))


def group(hosts: dict[str, int]) -> GroupView:
    return GroupView("group", "affinity", 1, hosts)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (None, [True, True, True, True]),
        (GroupView("group", "anti-affinity", 1, {"a": 1}), [True, True, True, True]),
        (group({}), [True, True, True, True]),
        (group({"a": 0}), [True, True, True, True]),
        (group({"a": 1, "c": 1}), [True, False, True, True]),
        (group({"gone": 1}), [False, False, False, False]),
    ],
)
def test_members_are_kept_together(view: GroupView | None, expected: list[bool]) -> None:
    assert ServerGroupAffinityFilter().passes(table(*HOSTS), request(group=view)).tolist() == expected
