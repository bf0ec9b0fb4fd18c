# SPDX-License-Identifier: Apache-2.0
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.cli.main import main
from kilonova.cli.wiring import database_lock
from kilonova.cli.wiring.database_lock import lock_database
from kilonova.db.database import Database
from support.cell import host, start_cell

CAPACITY = "UPDATE inventories SET capacity = capacity + 1"
NO_ROOM = "UPDATE inventories SET total = 0, capacity = 0"
FORGET = "DELETE FROM allocations"


class Cloud:
    """An SQLite file with one host and two servers; nobody has it open."""

    def __init__(self, template: Path, folder: Path) -> None:
        self.file = folder / "kilonova.db"
        shutil.copy(template, self.file)
        self.config = folder / "kilonova.conf"
        self.config.write_text(f"[database]\nconnection = sqlite:///{self.file}\n")
        cell = start_cell(folder, (host("node1"),), database=self.open())
        cell.boot(2)
        cell.bus.run()
        cell.database.close()

    def open(self) -> Database:
        return Database(f"sqlite:///{self.file}")

    def execute(self, *statements: str) -> None:
        engine = sa.create_engine(f"sqlite:///{self.file}")
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))
        engine.dispose()

    def audit(self, *options: str) -> int:
        return main(["placement", "audit", "--config-file", str(self.config), *options])


@pytest.fixture
def cloud(sqlite_template: Path, tmp_path: Path) -> Cloud:
    return Cloud(sqlite_template, tmp_path)


def said(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    findings: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
    return findings


def test_a_clean_cloud_has_no_finding(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    assert cloud.audit() == 0
    assert capsys.readouterr().out == "No inconsistencies found.\n"
    assert cloud.audit("--fix", "--json") == 0
    assert said(capsys) == []


def test_the_cloud_may_be_named_by_its_data_folder(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cloud.config.parent
    assert main(["placement", "audit", "--data", str(folder)]) == 0
    assert main(["db", "upgrade", "--data", str(folder)]) == 0
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    capsys.readouterr()
    assert main(["placement", "audit"]) == 2
    assert f"kilonova: {folder}/kilonova/kilonova.conf does not exist;" in capsys.readouterr().err


def test_findings_are_explained_and_nothing_is_changed(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    cloud.execute(CAPACITY + " WHERE resource_class_id = 1")
    for _ in range(2):
        assert cloud.audit() == 1
        output = capsys.readouterr().out
        assert "capacity: provider node1 (" in output
        assert "    capacity 5 is stored, but (4 - 0) x 1.0, rounded down, is 4.\n" in output
        assert "    --fix stores 4.\n" in output
        assert output.endswith("1 found.\n")


def test_fix_mends_and_the_next_audit_is_clean(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    cloud.execute(CAPACITY, FORGET)
    assert cloud.audit("--fix", "--json") == 0
    found = said(capsys)
    assert {finding["kind"] for finding in found} == {"capacity", "usage", "consumer", "server"}
    assert {(finding["state"], finding["reason"]) for finding in found} == {("repaired", "")}
    assert all(set(finding) == {"kind", "where", "what", "why", "remedy", "state", "reason"} for finding in found)
    assert cloud.audit() == 0


def test_what_cannot_be_mended_says_why(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    cloud.execute(NO_ROOM, FORGET)
    assert cloud.audit("--fix") == 1
    output = capsys.readouterr().out
    assert "Not repaired: Unable to allocate inventory" in output
    assert "repaired, 2 left." in output
    assert cloud.audit() == 1


def test_fix_needs_the_lock_and_looking_does_not(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_lock, "_LOCK_WAIT_S", 0.1)
    running = cloud.open()
    lock = lock_database(running)
    assert lock is not None
    with lock:
        assert cloud.audit() == 0
        assert cloud.audit("--fix") == 2
    running.close()
    assert "--fix cannot run while the control process runs" in capsys.readouterr().err
    assert cloud.audit("--fix") == 0


def test_without_a_database_nothing_is_made(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    cloud.file.unlink()
    assert cloud.audit() == 2
    assert "does not exist" in capsys.readouterr().err
    assert not cloud.file.exists()
    cloud.file.touch()
    assert cloud.audit("--fix") == 2
    assert "run `kilonova db upgrade`" in capsys.readouterr().err
    cloud.file.write_text("no database " * 100)
    assert cloud.audit() == 2
    cloud.config.write_text("[database]\nconnection = postgresql://127.0.0.1:1/nothing\n")
    assert cloud.audit() == 2
    assert main(["placement", "audit"]) == 2
