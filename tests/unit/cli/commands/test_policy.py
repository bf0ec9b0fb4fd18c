# SPDX-License-Identifier: Apache-2.0
"""`kilonova policy`: what there is, what is in force, and who passes."""

import json
from pathlib import Path

import pytest
import yaml

from kilonova.cli.main import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "none"))
    return tmp_path


def _file(folder: Path, text: str) -> str:
    file = folder / "mine.yaml"
    file.write_text(text)
    return str(file)


def test_a_list_says_what_is_in_force_and_what_is_guarded(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = _file(folder, '"os_compute_api:os-lock-server:lock": "role:janitor"\n')
    assert main(["policy", "list", "lock-server", "--policy-file", file, "--json"]) == 0
    rules = {rule["name"]: rule for rule in json.loads(capsys.readouterr().out)["rules"]}
    lock = rules["os_compute_api:os-lock-server:lock"]
    assert (lock["default"], lock["in_force"]) == ("rule:project_member_or_admin", "role:janitor")
    assert lock["routes"] == ["POST /servers/{server_id}/action (lock)"]
    assert rules["os_compute_api:os-lock-server:unlock"]["in_force"] == "rule:project_member_or_admin"
    assert main(["policy", "list", "(lock)", "--policy-file", file]) == 0
    text = capsys.readouterr().out
    assert "role:janitor" in text
    assert "unlock" not in text


def test_a_sample_changes_nothing_and_is_a_policy_file_without_its_comment_signs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = folder / "sample.yaml"
    assert main(["policy", "sample", "--output", str(target)]) == 0
    text = target.read_text()
    assert yaml.safe_load(text) is None
    rules = yaml.safe_load("\n".join(line[1:] for line in text.splitlines() if line.startswith('#"')))
    assert rules["os_compute_api:servers:show"] == "rule:project_reader_or_admin"
    assert main(["policy", "check", "--policy-file", _file(folder, yaml.safe_dump(rules))]) == 0
    assert f"they set {len(rules)} of {len(rules)} rules" in capsys.readouterr().out
    assert main(["policy", "sample", "--output", str(target)]) == 2
    assert main(["policy", "sample", "--output", str(folder / "no" / "where")]) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('"os_compute_api:servers:shwo": "@"\n', "no rule has this name"),
        ('"os_compute_api:servers:show": "role=x"\n', "cannot be parsed"),
        ("a: [b\n", "is not valid YAML"),
    ],
)
def test_a_bad_file_is_one_line_and_exit_code_2(
    folder: Path, text: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy", "check", "--policy-file", _file(folder, text)]) == 2
    said = capsys.readouterr()
    assert told in said.out + said.err
    assert said.err.count("\n") == 1


def test_a_check_tells_who_passes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = _file(folder, '"os_compute_api:servers:delete": "role:janitor"\n')
    ann = ["policy", "check", "--policy-file", file, "--user", "ann", "--project", "blue", "--role", "reader"]
    assert main([*ann, "--json"]) == 0
    rules = json.loads(capsys.readouterr().out)["rules"]
    assert rules["os_compute_api:servers:show"] is True
    assert rules["os_compute_api:servers:delete"] is False
    assert main([*ann, "--rule", "os_compute_api:servers:show"]) == 0
    assert main([*ann, "--rule", "os_compute_api:servers:show", "--target-project", "red"]) == 1
    assert main([*ann, "--role", "janitor", "--rule", "os_compute_api:servers:delete"]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rule", "os_compute_api:servers:shwo"],
        ["--rule", "os_compute_api:servers:show"],
        ["--role", "reader"],
        ["--user", "ann"],
        ["--token", "x", "--user", "ann"],
        ["--policy-file", "/nowhere.yaml"],
        ["--config-file", "/nowhere.conf"],
        ["--data", "/nowhere"],
    ],
)
def test_half_a_question_is_one_line_and_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "check", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
