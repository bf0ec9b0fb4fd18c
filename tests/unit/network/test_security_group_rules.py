# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.errors import Conflict, InvalidRequest, NotFound, OverQuota
from kilonova.network import security_groups
from kilonova.network.security_group_rules import NewRule, create_rule, delete_rule, get_rule, is_same
from support.neutron_world import World

SSH = NewRule(protocol="tcp", from_port=22, to_port=22, cidr="10.0.0.0/8")


@pytest.fixture
def group(world: World) -> str:
    return security_groups.create_group(world.client, "web", "", token=world.project).id


@pytest.mark.parametrize(
    ("new", "ports"),
    [
        (SSH, (22, 22)),
        (NewRule(protocol="udp", from_port=1, to_port=65535, cidr="fd00::/8"), (1, 65535)),
        (NewRule(protocol="icmp", from_port=-1, to_port=-1, cidr="0.0.0.0/0"), (-1, -1)),
        (NewRule(protocol="icmp", from_port=8, to_port=0, cidr="0.0.0.0/0"), (8, 0)),
    ],
)
def test_a_rule_with_a_network(world: World, group: str, new: NewRule, ports: tuple[int, int]) -> None:
    made = create_rule(world.client, group, new, token=world.project)
    assert (made.group_id, made.protocol, made.cidr, made.source_group_id) == (group, new.protocol, new.cidr, None)
    assert (made.from_port, made.to_port) == ports
    assert is_same(made, new)
    assert security_groups.get_group(world.client, group, token=world.project).rules == (made,)
    assert get_rule(world.client, made.id, token=world.project) == made
    with pytest.raises(NotFound):
        get_rule(world.client, made.id, token=world.other)
    delete_rule(world.client, made, token=world.project)
    with pytest.raises(NotFound):
        get_rule(world.client, made.id, token=world.project)


def test_a_rule_with_a_source_group(world: World, group: str) -> None:
    new = NewRule(source_group_id=group)
    made = create_rule(world.client, group, new, token=world.project)
    assert (made.protocol, made.from_port, made.to_port, made.cidr) == (None, None, None, "0.0.0.0/0")
    assert made.source_group_id == group
    assert not is_same(made, new)
    tcp = create_rule(world.client, group, NewRule(protocol="tcp", source_group_id=group), token=world.project)
    assert (tcp.from_port, tcp.to_port) == (1, 65535)


def test_rules_that_the_service_refuses(world: World, group: str) -> None:
    create_rule(world.client, group, SSH, token=world.project)
    with pytest.raises(Conflict, match="already exists"):
        create_rule(world.client, group, SSH, token=world.project)
    with pytest.raises(InvalidRequest):
        create_rule(world.client, group, NewRule(protocol="tcp", cidr="nonsense"), token=world.project)
    unknown = "5b674f73-0000-4000-8000-000000000000"
    with pytest.raises(NotFound):
        create_rule(world.client, unknown, SSH, token=world.project)
    used = sum(len(each["security_group_rules"]) for each in world.client.list("security-groups", token=world.project))
    world.client.update("quotas", world.project, {"security_group_rule": used})
    with pytest.raises(OverQuota):
        create_rule(world.client, group, NewRule(protocol="udp", cidr="10.0.0.0/8"), token=world.project)
