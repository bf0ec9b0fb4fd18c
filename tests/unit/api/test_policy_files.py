# SPDX-License-Identifier: Apache-2.0
"""Policy files: what in them is odd is told, former names are understood, and what breaks later changes nothing."""

from pathlib import Path

import pytest
from oslo_config import cfg
from oslo_policy import opts

from kilonova.api import policy as api_policy
from kilonova.api.former_rules import FORMER, NOT_HERE
from kilonova.api.policy import Credentials, Policy
from kilonova.cli.wiring.apis import RULES
from kilonova.errors import ConfigurationError

ADMINISTRATOR = Credentials("root", "admins", ("admin", "member", "reader"))
MEMBER = Credentials("ann", "blue", ("member", "reader"))
STRANGER = Credentials("joe", "blue", ("other",))
BLUE = {"project_id": "blue", "user_id": "ann"}


def policy_of(folder: Path, text: str = "", *, new_defaults: bool = True, **more: str) -> Policy:
    conf = cfg.ConfigOpts()
    opts.set_defaults(conf)
    conf([], default_config_files=[])
    file = folder / "policy.yaml"
    file.write_text(text)
    (folder / "policy.d").mkdir(exist_ok=True)
    for name, content in more.items():
        (folder / "policy.d" / f"{name}.yaml").write_text(content)
    conf.set_override("policy_file", str(file), group="oslo_policy")
    conf.set_override("policy_dirs", [str(folder / "policy.d")], group="oslo_policy")
    conf.set_override("enforce_new_defaults", new_defaults, group="oslo_policy")
    return Policy(conf, RULES)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('"os_compute_api:servers:shwo": "@"', "no rule has this name"),
        ('"os_compute_api:servers:show": "role=admin"', "cannot be parsed"),
        ('"os_compute_api:servers:show": "role:admin or"', "cannot be parsed"),
        ('"os_compute_api:servers:show": "rule:nonsense"', "rule:nonsense, which is not defined"),
        ('"os_compute_api:servers:show": "rolls:admin"', "callers have no attribute 'rolls'"),
        ('"os_compute_api:servers:show": "project_id:%(tenant_id)s"', "targets have no attribute 'tenant_id'"),
    ],
)
def test_what_does_not_do_what_it_seems_to_is_told(
    tmp_path: Path, line: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    (finding,) = policy_of(tmp_path, f"{line}\n").findings
    assert told in finding.what
    assert not finding.is_harmless
    assert any(str(finding) in message for message in caplog.messages)


@pytest.mark.parametrize(
    "line",
    [
        '"os_compute_api:servers:show": "!"',
        '"os_compute_api:servers:show": "role:reader and (is_admin:True or user_id:%(user_id)s)"',
        '"mine": "role:auditor"\n"os_compute_api:servers:show": "rule:mine"',
        '"default": "!"',
        "",
        "# nothing but a comment",
    ],
)
def test_what_is_well_is_not_remarked_upon(tmp_path: Path, line: str) -> None:
    assert policy_of(tmp_path, f"{line}\n").findings == ()


def test_names_of_nova_that_guard_nothing_here_are_no_mistakes(tmp_path: Path) -> None:
    name = min(NOT_HERE)
    (finding,) = policy_of(tmp_path, f'"{name}": "!"\n').findings
    assert finding.is_harmless


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1, 2]\n", "contains no rules"),
        ("a: [b\n", "is not valid YAML"),
        ('"os_compute_api:servers:show": 7\n', "a rule is NAME: CHECK"),
        ('"a": "rule:b"\n"b": "not rule:a"\n', "check a, b"),
        ('"context_is_admin": "rule:admin_api"\n', "check "),
    ],
)
def test_a_file_that_cannot_be_read_ends_the_start(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as refused:
        policy_of(tmp_path, text)
    assert "\n" not in refused.value.message


def test_a_configured_file_that_is_not_there_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "k.conf").write_text("[oslo_policy]\npolicy_file = policies.yaml\n")
    conf = cfg.ConfigOpts()
    conf([], project="kilonova", default_config_files=[str(tmp_path / "k.conf")], default_config_dirs=[])
    Policy(conf, RULES)
    assert any("policies.yaml does not exist" in message for message in caplog.messages)


@pytest.mark.parametrize("broken", ["a: [b\n", "[1]\n", '"a": "rule:a"\n'])
def test_a_file_that_breaks_later_changes_nothing_until_it_is_mended(
    tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    show, delete = "os_compute_api:servers:show", "os_compute_api:servers:delete"
    policy = policy_of(tmp_path, f'"{show}": "!"\n', one=f'"{delete}": "!"\n')
    monkeypatch.setattr(api_policy, "_RELOAD_EVERY_S", 0.0)
    (tmp_path / "policy.d" / "one.yaml").write_text(broken)
    for _ in range(3):
        assert not policy.allows(show, BLUE, ADMINISTRATOR)
        assert not policy.allows(delete, BLUE, ADMINISTRATOR)
        assert policy.allows("os_compute_api:servers:update", BLUE, MEMBER)
    assert sum("stay in force" in message for message in caplog.messages) == 1

    (tmp_path / "policy.d" / "one.yaml").write_text(f'"{delete}": "@"\n')
    assert policy.allows(delete, BLUE, STRANGER)
    assert not policy.allows(show, BLUE, ADMINISTRATOR)

    (tmp_path / "policy.d" / "one.yaml").unlink()
    assert not policy.allows(delete, BLUE, STRANGER)


@pytest.mark.parametrize("former", sorted({was.name for was in FORMER.values()}))
def test_a_former_name_sets_what_it_was_split_into(tmp_path: Path, former: str) -> None:
    present = {rule.name for rule in RULES}
    now = [name for name, was in FORMER.items() if was.name == former and name in present]
    policy = policy_of(tmp_path, f'"{former}": "role:other"\n')
    assert all(policy.allows(name, BLUE, STRANGER) for name in now)
    assert not any(policy.allows(name, BLUE, ADMINISTRATOR) for name in now)
    assert all(finding.is_harmless for finding in policy.findings)
    if now and former not in present:
        (finding,) = policy.findings
        assert now[0] in finding.what


def test_a_present_name_wins_over_the_former_one(tmp_path: Path) -> None:
    policy = policy_of(
        tmp_path, '"os_compute_api:os-services": "@"\n"os_compute_api:os-services:delete": "role:admin"\n'
    )
    assert policy.allows("os_compute_api:os-services:list", BLUE, STRANGER)
    assert not policy.allows("os_compute_api:os-services:delete", BLUE, STRANGER)


def test_who_is_an_administrator_says_one_rule(tmp_path: Path) -> None:
    show = "os_compute_api:servers:show"
    policy = policy_of(tmp_path, f'"context_is_admin": "role:cloud_admin"\n"{show}": "is_admin:True"\n')
    boss = Credentials("eve", "red", ("cloud_admin",))
    assert policy.allows(show, BLUE, boss)
    assert policy.allows("os_compute_api:os-services:list", BLUE, boss)
    assert not policy.allows(show, BLUE, ADMINISTRATOR)
    assert not policy.allows("os_compute_api:os-services:list", BLUE, ADMINISTRATOR)


def test_former_defaults_hold_beside_the_present_ones_where_that_is_asked_for(tmp_path: Path) -> None:
    show = "os_compute_api:servers:show"
    assert not policy_of(tmp_path).allows(show, BLUE, STRANGER)
    before = policy_of(tmp_path, new_defaults=False)
    assert before.allows(show, BLUE, STRANGER)
    assert not before.allows(show, {"project_id": "red", "user_id": "bob"}, STRANGER)
    assert not before.allows("os_compute_api:os-services:list", BLUE, STRANGER)
