# SPDX-License-Identifier: Apache-2.0
from kilonova.db.change_log.changes import LoggedGroup
from kilonova.mirror.groups import Groups


def logged(hosts: dict[str, int], host: str | None = None) -> LoggedGroup:
    return LoggedGroup(policy="affinity", max=1, host=host, hosts=hosts)


def test_members_that_claims_expect_are_added_and_taken_back() -> None:
    groups = Groups()
    groups.set("g", logged({"a": 1}))
    groups.assume("g", "a", 1)
    groups.assume("g", "b", 2)
    found = groups.find("g")
    assert found is not None
    assert found.hosts == {"a": 2, "b": 2}
    groups.assume("g", "a", -1)
    groups.assume("g", "b", -2)
    found = groups.find("g")
    assert found is not None
    assert found.hosts == {"a": 1}


def test_expected_members_survive_a_new_load_and_a_group_without_row_is_unknown() -> None:
    groups = Groups()
    groups.assume("g", "a", 1)
    assert groups.find("g") is None
    groups.set("g", logged({}))
    groups.clear()
    assert groups.find("g") is None
    groups.set("g", logged({}))
    found = groups.find("g")
    assert found is not None
    assert found.hosts == {"a": 1}
    groups.set("g", None)
    assert groups.find("g") is None


def test_a_moving_member_of_an_affinity_group_counts_where_the_group_is() -> None:
    groups = Groups()
    groups.set("g", logged({"old": 1, "new": 1}, host="new"))
    found = groups.find("g")
    assert found is not None
    assert found.hosts == {"new": 1}
