# SPDX-License-Identifier: Apache-2.0
"""Diffs in the process of a command: filters of one's own, options that name code."""

from pathlib import Path

import pytest

from kilonova.claims.checkpointer import Checkpointer
from kilonova.cli.main import main
from kilonova.cli.wiring.local_diff import local_diff
from kilonova.db import checkpoints
from kilonova.errors import InvalidRequest
from support.control import Control, start_control
from support.waiting import wait_until

OWN = '''"""A filter of an operator."""

class EvenHosts:
    """Rejects node1."""

    def host_passes(self, host_state, spec_obj):
        return host_state.host != "node1"
'''


@pytest.fixture
def files(tmp_path: Path, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The configuration file of a cloud with one stored decision, and a module in the present folder."""
    (tmp_path / "own_rules.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kilonova.db").write_bytes(sqlite_template.read_bytes())
    control = start_control(tmp_path, more="[operator]\njob_workers = 0\n")
    try:
        fill(control)
    finally:
        control.process.close()
    return [str(tmp_path / "kilonova.conf")]


def fill(control: Control) -> None:
    database = control.process.database
    Checkpointer(database, 3).take_if_due()
    control.add_flavor()

    def has_checkpoint() -> bool:
        with database.read() as connection:
            return checkpoints.oldest(connection) is not None

    wait_until(has_checkpoint, lambda: "a checkpoint")
    assert control.boot(control.admin)["OS-EXT-SRV-ATTR:host"] == "node1"
    database.write(lambda tx: tx.now)


def test_a_filter_of_ones_own_is_tried(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = local_diff(files, {"last": 10}, ("own_rules:EvenHosts",))
    (only,) = found["differences"]
    assert (only["verdict"], only["from"], only["to"]) == ("elsewhere", "node1", "node2")
    assert (only["rule"], only["effect"]) == ("EvenHosts", "rejects")
    arguments = ["diff", "--config-file", files[0]]
    assert main([*arguments, "--filter", "own_rules:EvenHosts"]) == 1
    assert "EvenHosts rejects node1" in " ".join(capsys.readouterr().out.split())
    assert main(arguments) == 0
    assert "1 decisions: 1 same" in capsys.readouterr().out


def test_the_operator_of_the_machine_may_name_code(files: list[str]) -> None:
    options = {"available_filters": "own_rules.EvenHosts", "enabled_filters": "EvenHosts"}
    assert local_diff(files, {"options": options})["counts"]["elsewhere"] == 1


@pytest.mark.parametrize(
    ("body", "filters", "told"),
    [
        ({}, ("own_rules:None",), "filters"),
        ({}, ("no_such_module:Filter",), "no_such_module"),
        ({}, ("own_rules",), "filters"),
        ({"options": {"driver": "x"}}, (), "driver"),
        ({"last": 0}, (), "last"),
        ({"aggregates": {"none": {}}}, (), "none"),
    ],
)
def test_bad_input_names_the_field(
    files: list[str], body: dict[str, object], filters: tuple[str, ...], told: str
) -> None:
    with pytest.raises(InvalidRequest, match=told):
        local_diff(files, body, filters)
