# SPDX-License-Identifier: Apache-2.0
"""Policy looks at roles and at what a token is scoped to, and remembers answers only where they cannot change."""

from dataclasses import replace
from pathlib import Path

import pytest
from oslo_config import cfg
from oslo_policy import opts

from kilonova.api import policy as api_policy
from kilonova.api.compute.family import RULES as COMPUTE_RULES
from kilonova.api.operator.family import RULES as OPERATOR_RULES
from kilonova.api.placement.family import RULES as PLACEMENT_RULES
from kilonova.api.policy import (
    ADMIN,
    ANYONE,
    BASE_RULES,
    OWN_OR_ADMIN,
    PROJECT_MEMBER_OR_ADMIN,
    Credentials,
    Policy,
    rule,
)

RULES = (
    rule("thing:own", PROJECT_MEMBER_OR_ADMIN, "Use one's own thing"),
    rule("thing:all", ADMIN, "Use everybody's things"),
    rule("thing:any", ANYONE, "Look at public things"),
    rule("thing:mine", OWN_OR_ADMIN, "Use things of users"),
)
ADMINISTRATOR = Credentials("root", "admins", ("admin",))
MEMBER = Credentials("ann", "blue", ("member",))
BLUE, RED = {"project_id": "blue", "user_id": "ann"}, {"project_id": "red", "user_id": "bob"}


def policy_with(file: Path | None = None) -> Policy:
    conf = cfg.ConfigOpts()
    opts._register(conf)
    conf([], default_config_files=[])
    if file is not None:
        conf.set_override("policy_file", str(file), group="oslo_policy")
    return Policy(conf, RULES)


@pytest.mark.parametrize("times", [1, 3])
def test_every_caller_target_and_rule_has_an_answer_of_its_own(times: int) -> None:
    policy = policy_with()
    for _ in range(times):
        assert policy.allows("thing:own", BLUE, MEMBER)
        assert not policy.allows("thing:own", RED, MEMBER)
        assert policy.allows("thing:own", RED, ADMINISTRATOR)
        assert not policy.allows("thing:all", BLUE, MEMBER)
        assert not policy.allows("thing:own", BLUE, Credentials("ann", "blue", ("reader",)))


def test_a_changed_policy_file_counts_within_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text('"thing:all": "role:admin"\n')
    policy = policy_with(file)
    assert not policy.allows("thing:all", BLUE, MEMBER)

    file.write_text('"thing:all": "role:admin or role:member"\n')
    monkeypatch.setattr(api_policy, "_RELOAD_EVERY_S", 0.0)

    assert policy.allows("thing:all", BLUE, MEMBER)


def test_an_answer_that_somebody_else_gives_is_asked_for_again(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text('"thing:all": "role:admin or not http://127.0.0.1:1/%(user_id)s"\n')
    assert policy_with(file)._enforcer.memory is None
    file.write_text('"thing:all": "role:admin or not role:member"\n')
    assert policy_with(file)._enforcer.memory == {}


@pytest.mark.parametrize(
    "scoped",
    [
        {"project_id": "", "domain_id": "default"},
        {"project_id": "", "system_scope": "all"},
        {"project_id": ""},
        {"user_id": ""},
    ],
    ids=["domain", "system", "unscoped", "nobody"],
)
@pytest.mark.parametrize("target", [BLUE, {"project_id": "", "user_id": ""}, {"project_id": "", "user_id": "root"}])
def test_only_a_token_of_a_project_opens_anything(scoped: dict[str, str], target: dict[str, str]) -> None:
    policy = policy_with()
    assert policy.allows("thing:all", target, ADMINISTRATOR)  # and this answer is not remembered for others
    credentials = replace(ADMINISTRATOR, roles=("admin", "manager", "member", "reader"), **scoped)
    for name in ("thing:own", "thing:all", "thing:any", "thing:mine", "context_is_admin"):
        assert not policy.allows(name, target, credentials), name


def test_a_policy_file_cannot_open_a_rule_to_other_scopes(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text('"thing:all": "@"\n')
    policy = policy_with(file)
    assert policy.allows("thing:all", BLUE, MEMBER)
    assert not policy.allows("thing:all", BLUE, replace(ADMINISTRATOR, project_id="", system_scope="all"))
    assert not policy.allows("thing:all", BLUE, replace(ADMINISTRATOR, project_id="", domain_id="default"))


def test_a_token_is_no_part_of_what_answers_are_remembered_by() -> None:
    one, other = replace(MEMBER, token="gAAAA1"), replace(MEMBER, token="gAAAA2")
    assert one == other
    assert "gAAAA1" not in repr(one)
    assert replace(MEMBER, domain_id="d") != MEMBER
    assert replace(MEMBER, system_scope="all") != MEMBER


def test_every_rule_says_that_it_needs_a_project() -> None:
    for each in (*BASE_RULES, *COMPUTE_RULES, *PLACEMENT_RULES, *OPERATOR_RULES):
        assert each.scope_types == ["project"], each.name
