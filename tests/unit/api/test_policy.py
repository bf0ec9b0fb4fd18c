# SPDX-License-Identifier: Apache-2.0
"""Policy answers are remembered only for as long, and only where, they cannot change."""

from pathlib import Path

import pytest
from oslo_config import cfg
from oslo_policy import opts

from kilonova.api import policy as api_policy
from kilonova.api.policy import ADMIN, PROJECT_MEMBER_OR_ADMIN, Credentials, Policy, rule

RULES = (
    rule("thing:own", PROJECT_MEMBER_OR_ADMIN, "Use one's own thing"),
    rule("thing:all", ADMIN, "Use everybody's things"),
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
