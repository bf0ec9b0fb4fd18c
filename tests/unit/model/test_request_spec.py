# SPDX-License-Identifier: Apache-2.0
from kilonova.model.flavor import Flavor
from kilonova.model.request_spec import REBUILD, REBUILD_HINT, RequestSpec, ResourceGroup, ResourceQuery
from kilonova.model.server_migration import MoveKind

FLAVOR = Flavor("1", "small", 1, 512, 1)
SPEC = RequestSpec(
    FLAVOR,
    instance_uuids=("one", "two"),
    hints={"same_host": ("seen", "unseen")},
    unseen_instances=frozenset({"unseen"}),
    force_host="forced",
    force_node="forced-node",
    ignore_hosts=frozenset({"ignored"}),
    tried=(("tried", "tried"),),
    availability_zone="west",
)


def test_a_hint_names_only_servers_that_its_user_may_see() -> None:
    assert SPEC.hinted_instances("same_host") == ("seen",)
    assert SPEC.hinted_instances("different_host") == ()


def test_a_move_keeps_hints_and_zone_and_drops_the_hosts_of_the_build() -> None:
    moved = SPEC.moving(MoveKind.COLD_MIGRATE, "two", leaving=["source"], host="wanted")
    assert (moved.hints, moved.availability_zone, moved.flavor) == (SPEC.hints, "west", FLAVOR)
    assert (moved.force_host, moved.force_node, moved.tried) == (None, None, ())
    assert (moved.requested_host, moved.ignore_hosts, moved.instance_uuids) == ("wanted", {"source"}, ("two",))
    assert (moved.num_instances, SPEC.num_instances, RequestSpec(FLAVOR).num_instances) == (1, 2, 1)


def test_only_a_rebuild_gets_the_hint_of_a_rebuild() -> None:
    assert SPEC.moving(MoveKind.REBUILD, "one").hints == {**SPEC.hints, REBUILD_HINT: REBUILD}
    larger = Flavor("2", "large", 4, 512, 1)
    assert SPEC.moving(MoveKind.RESIZE, "one", flavor=larger).flavor is larger


def test_all_groups_of_a_query_are_added_up() -> None:
    groups = (ResourceGroup("1", {"VGPU": 1, "VCPU": 1}), ResourceGroup("2", {"VGPU": 2}))
    query = ResourceQuery({"VCPU": 2}, groups=groups, group_policy="isolate")
    assert query.totals == {"VCPU": 3, "VGPU": 3}
    assert query.resources == {"VCPU": 2}
    assert query.isolates
    assert not ResourceQuery(groups=groups[:1], group_policy="isolate").isolates
    assert not ResourceQuery(groups=groups, group_policy="none").isolates


def test_traits_are_added_to_those_that_the_root_must_have() -> None:
    assert SPEC.requiring("A").requiring("B", "A").query.root_required == {"A", "B"}
    assert SPEC.query.root_required == frozenset()
