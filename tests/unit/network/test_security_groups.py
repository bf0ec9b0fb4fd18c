# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.errors import Conflict, NotFound, OverQuota
from kilonova.network import security_groups
from kilonova.network.security_group_rules import NewRule, create_rule
from kilonova.network.security_groups import SecurityGroup
from support.neutron_world import World


def create(world: World, name: str, project: str = "") -> SecurityGroup:
    return security_groups.create_group(world.client, name, "", token=project or world.project)


def test_a_group_is_created_changed_and_deleted(world: World) -> None:
    client, token = world.client, world.project
    made = create(world, "web")
    assert made == SecurityGroup(id=made.id, name="web", project_id=world.project, description="")
    changed = security_groups.update_group(client, made.id, "www", "Web servers", token=token)
    assert (changed.name, changed.description) == ("www", "Web servers")
    assert security_groups.get_group(client, made.id, token=token) == changed
    default, listed = security_groups.all_groups(client, world.project, token=token)
    assert (default.name, listed) == ("default", changed)
    security_groups.delete_group(client, made.id, token=token)
    with pytest.raises(NotFound, match=made.id):
        security_groups.get_group(client, made.id, token=token)


def test_groups_in_use_and_the_default_group(world: World) -> None:
    made = create(world, "web")
    world.bound(world.network(), security_groups=[made.id])
    with pytest.raises(Conflict, match="in use"):
        security_groups.delete_group(world.client, made.id, token=world.project)
    (default, _) = security_groups.all_groups(world.client, world.project, token=world.project)
    with pytest.raises(Conflict):
        security_groups.delete_group(world.client, default.id, token=world.project)
    with pytest.raises(Conflict, match="Updating default security group not allowed"):
        security_groups.update_group(world.client, default.id, "other", "", token=world.project)
    with pytest.raises(Conflict, match="Default security group already exists"):
        create(world, "default")


def test_quota_of_groups(world: World) -> None:
    create(world, "web")
    world.client.update("quotas", world.project, {"security_group": 2})
    with pytest.raises(OverQuota, match="Quota exceeded for resources"):
        create(world, "more")


def test_source_groups_that_the_user_can_see(world: World) -> None:
    client, token = world.client, world.project
    made, source, foreign = create(world, "web"), create(world, "clients"), create(world, "theirs", world.other)
    create_rule(client, made.id, NewRule(source_group_id=source.id), token=token)
    world.client.create(
        "security-group-rules",
        {"security_group_id": made.id, "direction": "ingress", "remote_group_id": foreign.id, "ethertype": "IPv4"},
    )
    group = security_groups.get_group(client, made.id, token=token)
    assert {rule.source_group_id for rule in group.rules} == {source.id, foreign.id}
    found = security_groups.source_groups(client, [group], token=token)
    assert {each.name for each in found.values()} == {"web", "clients"}
    assert found[source.id].project_id == world.project
