# SPDX-License-Identifier: Apache-2.0
"""`kilonova status upgrade-check` and `kilonova db online-data-migrations`: what they say, and their exit codes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.cli.main import main
from kilonova.db import host_agents, request_specs, switches
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.host_agents import LEASE, Process
from kilonova.db.online_migrations.online_migration import AT_ONCE, OnlineMigration, pending, run
from kilonova.db.online_migrations.request_specs import REQUEST_SPECS
from kilonova.messaging.codec import OLDEST, VERSION
from kilonova.model.flavor import Flavor
from kilonova.model.request_spec import RequestSpec, StoredRequest


class Cloud:
    """A configuration and a database that nobody works on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'kilonova.db'}"
        self.conf = folder / "kilonova.conf"
        self.configure("")

    def configure(self, more: str) -> None:
        self.conf.write_text(f"[api]\nauth_strategy = noauth2\n[database]\nconnection = {self.url}\n{more}")

    def write(self, job: Any) -> None:
        database = Database(self.url)
        database.write(job)
        database.close()

    def check(self, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, tuple[str, str]]]:
        code = main(["status", "upgrade-check", "--config-file", str(self.conf), "--json"])
        told = json.loads(capsys.readouterr().out)["checks"]
        return code, {each["check"]: (each["result"], each["details"]) for each in told}


@pytest.fixture
def cloud(tmp_path: Path, sqlite_template: Path) -> Cloud:
    shutil.copy(sqlite_template, tmp_path / "kilonova.db")
    return Cloud(tmp_path)


def store_old(tx: Transaction, count: int) -> None:
    """Store requests as an early release did: without moves, networks and models of devices."""
    flavor = Flavor("1", "tiny", 1, 512, 1)
    for number in range(count):
        spec = RequestSpec(flavor, None, hints={"a": ("b",)}, project_id="p", user_id="u", request_id=f"req-{number}")
        request_specs.insert(tx, [StoredRequest(f"{number:036}", spec, None)])
    for row in tx.execute(sa.select(t.request_specs)).all():
        body = {name: value for name, value in row.body.items() if name not in {"move", "networks"}}
        tx.execute(sa.update(t.request_specs).where(t.request_specs.c.uuid == row.uuid).values(body=body))


def test_a_cloud_that_is_well_passes(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "upgrade-check", "--config-file", str(cloud.conf)]) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "| Upgrade Check Results" in shown
    assert "| Check: Database schema" in shown
    assert shown.count("| Result: Success") == shown.count("| Details: None") > 5


def test_what_is_to_be_looked_at_is_a_warning(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    cloud.configure("[filter_scheduler]\nshuffle = true\n")

    def spoil(tx: Transaction) -> None:
        store_old(tx, 3)
        switches.turn_on(tx, switches.READ_ONLY, "")
        host_agents.register(tx, Process("s", "m", "agent1", "0.1", VERSION - 1), ["node1"], LEASE)

    cloud.write(spoil)
    code, checks = cloud.check(capsys)
    assert code == 1
    warned = {name: details for name, (result, details) in checks.items() if result == "Warning"}
    assert warned.keys() == {"Options", "Online data migrations", "Agents", "Switches"}
    assert "[filter_scheduler] shuffle" in warned["Options"]
    assert "3 request specs" in warned["Online data migrations"]
    assert "agent agent1 of release 0.1" in warned["Agents"]


def test_agents_that_are_too_old_are_a_failure(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    old = Process("s", "m", "agent1", "0.1", OLDEST - 1)
    cloud.write(lambda tx: host_agents.register(tx, old, ["node1"], LEASE))
    code, checks = cloud.check(capsys)
    assert code == 2
    assert checks["Agents"][0] == "Failure"


@pytest.mark.parametrize(
    ("revision", "since", "result"),
    [("0009", "0001", "Warning"), ("9999", "9998", "Failure"), ("9999", "0029", "Warning")],
    ids=["older", "of a later release", "of the next release"],
)
def test_another_schema_is_told_and_nothing_in_it_is_read(
    cloud: Cloud, revision: str, since: str, result: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.write(lambda tx: tx.execute(sa.text(f"UPDATE alembic_version SET version_num = '{revision}'")))
    cloud.write(lambda tx: switches.turn_on(tx, "schema-works-since", since))
    code, checks = cloud.check(capsys)
    assert checks["Database schema"][0] == result
    assert code == {"Warning": 1, "Failure": 2}[result]
    assert "Agents" not in checks


def test_a_policy_file_that_cannot_be_read_is_a_failure(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    (cloud.folder / "policy.yaml").write_text("a: [b\n")
    code, checks = cloud.check(capsys)
    assert code == 2
    assert "is not valid YAML" in checks["Policy files"][1]


def test_a_check_that_breaks_has_an_exit_code_of_its_own(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    cloud.write(lambda tx: tx.execute(sa.text("DROP TABLE switches")))
    assert main(["status", "upgrade-check", "--config-file", str(cloud.conf)]) == 255
    assert "a check failed to run" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "upgrade-check", "--config-file", "/nowhere"],
        ["db", "online-data-migrations", "--config-file", "/nowhere"],
        ["db", "online-data-migrations", "--config-file", "CONF", "--max-count", "0"],
        ["db", "online-data-migrations", "--config-file", "CONF", "--max-count", "many"],
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    cloud: Cloud, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(cloud.conf) if each == "CONF" else each for each in arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_online_migrations_go_on_where_they_ended(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    cloud.write(lambda tx: store_old(tx, 120))
    command = ["db", "online-data-migrations", "--config-file", str(cloud.conf)]
    assert main([*command, "--max-count", "70"]) == 1
    assert "70 rows found, 70 rows migrated" in capsys.readouterr().out
    assert cloud.check(capsys)[1]["Online data migrations"][1].startswith("50 request specs")
    assert main(command) == 0
    assert "50 rows found, 50 rows migrated" in capsys.readouterr().out
    assert main([*command, "--max-count", "70"]) == 0
    capsys.readouterr()
    assert cloud.check(capsys)[0] == 0


def test_what_is_changed_says_what_it_said_and_is_bounded(cloud: Cloud) -> None:
    cloud.write(lambda tx: store_old(tx, AT_ONCE + 1))
    database = Database(cloud.url)
    sizes: list[int] = []

    def counted(tx: Transaction, keys: Any) -> int:
        sizes.append(len(keys))
        return REQUEST_SPECS.change(tx, keys)

    with database.read() as connection:
        before = request_specs.get(connection, f"{7:036}")
    run(database, OnlineMigration("x", REQUEST_SPECS.find, counted), rest=lambda _seconds: None)
    assert sizes == [AT_ONCE, 1]
    with database.read() as connection:
        assert request_specs.get(connection, f"{7:036}") == before
        bodies = connection.execute(sa.select(t.request_specs.c.body)).scalars().all()
    assert all(request_specs.is_in_present_form(body) for body in bodies)
    assert pending(database, REQUEST_SPECS) == 0
    database.close()


def test_rows_that_cannot_be_changed_stop_nobody(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    def spoil(tx: Transaction) -> None:
        store_old(tx, AT_ONCE + 10)
        broken = sa.update(t.request_specs).where(t.request_specs.c.uuid == f"{3:036}")
        tx.execute(broken.values(body={"image": None, "flavor": "none"}))

    cloud.write(spoil)
    assert main(["db", "online-data-migrations", "--config-file", str(cloud.conf)]) == 2
    assert "60 rows found, 59 rows migrated" in capsys.readouterr().out
