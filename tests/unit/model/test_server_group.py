# SPDX-License-Identifier: Apache-2.0
from kilonova.model.server_group import GroupView


def test_members_are_counted_by_host_and_empty_hosts_go() -> None:
    group = GroupView("g", "affinity", hosts={"a": 1})
    assert group.with_members("a", 2).with_members("b").hosts == {"a": 3, "b": 1}
    assert group.with_members("a", -1).hosts == {}
    assert group.hosts == {"a": 1}
