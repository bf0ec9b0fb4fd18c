# SPDX-License-Identifier: Apache-2.0
"""Allowed requests by role and scope: with the new defaults, with the old ones beside them, and with a policy file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from api.placement.placement_service import Placement, start_placement
from kilonova.api.placement.family import RULES
from support.api_client import Client

Started = Callable[..., Client]


@pytest.fixture
def serve(database_url: str) -> Iterator[Started]:
    started: list[Placement] = []

    def start(**options: Any) -> Client:
        started.append(start_placement(database_url, oslo_policy=options))
        return started[-1].admin

    yield start
    for each in started:
        each.database.close()


def may_list(client: Client, roles: str, **headers: str) -> bool:
    return client.as_user("someone:p1", X_Roles=roles, **headers).get("/resource_providers").status == 200


def may_reshape(client: Client, roles: str) -> bool:
    """Bad data, so that nothing happens: 400 says that policy let it through."""
    return client.as_user("someone:p1", X_Roles=roles).post("/reshaper", {}).status == 400


def may_see_usages(client: Client, roles: str, of: str) -> bool:
    return client.as_user("someone:p1", X_Roles=roles).get(f"/usages?project_id={of}").status == 200


@pytest.mark.parametrize("new", [True, False])
def test_administrators_and_services_of_a_project_pass(serve: Started, new: bool) -> None:
    client = serve(enforce_new_defaults=new)
    assert may_list(client, "admin,member,reader")
    assert may_list(client, "service")
    assert not may_list(client, "member,reader")
    assert not may_list(client, "")
    assert not may_list(client, "admin", Openstack_System_Scope="all")


def test_only_services_reshape(serve: Started) -> None:
    client = serve()
    assert may_reshape(client, "service")
    assert not may_reshape(client, "admin")


def test_administrators_reshape_too_where_the_old_defaults_go_on_to_hold(serve: Started) -> None:
    client = serve(enforce_new_defaults=False)
    assert may_reshape(client, "service")
    assert may_reshape(client, "admin")
    assert not may_reshape(client, "member")


def test_readers_see_the_usages_of_their_own_project(serve: Started) -> None:
    client = serve()
    assert may_see_usages(client, "reader", "p1")
    assert not may_see_usages(client, "reader", "p2")
    assert may_see_usages(client, "admin", "p2")
    assert may_see_usages(client, "service", "p2")


def test_the_policy_file_has_the_last_word(serve: Started, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("".join(f'"{rule.name}": "@"\n' for rule in RULES if rule.name.startswith("placement:")))
    client = serve(policy_file=str(file))
    assert may_list(client, "")
    assert may_reshape(client, "")
    assert may_see_usages(client, "", "p2")


def test_every_rule_is_documented_and_used_once() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))
    assert sum(name.startswith("placement:") for name in names) == 33
