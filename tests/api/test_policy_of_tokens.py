# SPDX-License-Identifier: Apache-2.0
"""`kilonova policy check --token`: Keystone says who the caller is."""

import io
import json
from pathlib import Path

import pytest

from kilonova.cli.main import main
from support.identity import ELSEWHERE, HOME, SYSTEM, Identity

RULE = "os_compute_api:servers:delete"


@pytest.fixture
def conf(tmp_path: Path, identity: Identity) -> str:
    file = tmp_path / "kilonova.conf"
    file.write_text(f"[api]\nauth_strategy = keystone\n[database]\nconnection = sqlite://\n{identity.section}")
    return str(file)


@pytest.mark.parametrize(
    ("role", "scope", "code"),
    [("member", HOME, 0), ("reader", HOME, 1), ("member", ELSEWHERE, 1), ("admin", SYSTEM, 1)],
)
def test_a_token_passes_as_it_would_at_the_api(
    conf: str, identity: Identity, role: str, scope: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    target = ["--target-project", identity.projects[HOME]]
    command = ["policy", "check", "--config-file", conf, "--rule", RULE, *target, "--json"]
    assert main([*command, "--token", identity.tokens[role, scope]]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["caller"]["user_id"] == identity.users[role]
    assert told["rules"] == {RULE: code == 0}
    assert identity.tokens[role, scope] not in json.dumps(told)


def test_a_token_comes_by_standard_input(
    conf: str, identity: Identity, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(identity.tokens["admin", HOME] + "\n"))
    assert main(["policy", "check", "--config-file", conf, "--rule", RULE, "--token", "-"]) == 0
    assert capsys.readouterr().out == f"passes   {RULE}\n"


def test_a_token_that_nobody_knows_is_one_line(conf: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", "--config-file", conf, "--token", "gAAAAnonsense"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
