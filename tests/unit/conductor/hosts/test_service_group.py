# SPDX-License-Identifier: Apache-2.0
"""States of hosts that a service-group driver declares."""

import fcntl
import logging
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from kilonova.cli.wiring.service_group import host_states
from kilonova.conductor.hosts.service_group import DeclaredHosts
from kilonova.db.core import tables as t
from kilonova.errors import ConfigurationError, Unavailable
from kilonova.model.server_migration import MigrationStatus
from support.control import Control, NewControl, new_controls, settings_of
from support.waiting import wait_until
from support.world import guests_on_disk

EXAMPLES = Path(__file__).parents[4] / "examples"


class Driver:
    """Declares what it was told."""

    def __init__(self, **said: bool) -> None:
        self.said: Any = said

    def states(self) -> Mapping[str, bool]:
        if isinstance(self.said, Exception):
            raise self.said
        found: Mapping[str, bool] = self.said
        return found


@pytest.fixture
def new_control(sqlite_template: Path, tmp_path: Path) -> Iterator[NewControl]:
    with new_controls(sqlite_template, tmp_path) as start:
        yield start


@pytest.fixture
def control(new_control: NewControl) -> Control:
    return new_control()


def states(control: Control) -> dict[str, str]:
    listed = control.admin.get("/os-services?binary=nova-compute").body["services"]
    return {service["host"]: service["state"] for service in listed}


def test_a_host_that_is_declared_down_gets_no_server_until_it_is_up_again(
    control: Control, caplog: pytest.LogCaptureFixture
) -> None:
    driver = Driver(node1=False, node2=True, unknown=False)
    declared = DeclaredHosts(control.process.database, driver)
    with caplog.at_level(logging.INFO):
        declared.look()
        declared.look()
    assert [each.message for each in caplog.records if "declares" in each.message] == [
        "The service-group driver declares 1 hosts down: node1"
    ]
    assert states(control) == {"node1": "down", "node2": "up"}
    shown = {host["host"]: host for host in control.operator.get("/hosts").body["hosts"]}
    assert [(shown[name]["state"], shown[name]["declared_down"]) for name in ("node1", "node2")] == [
        ("down", True), ("up", False),
    ]  # fmt: skip
    assert {control.boot()["OS-EXT-SRV-ATTR:host"] for _ in range(3)} == {"node2"}
    driver.said = {"node2": False}
    declared.look()
    assert states(control) == {"node1": "up", "node2": "down"}
    assert control.boot()["OS-EXT-SRV-ATTR:host"] == "node1"
    DeclaredHosts(control.process.database, None).look()
    assert states(control) == {"node1": "up", "node2": "up"}
    control.check()


def test_a_host_whose_servers_were_evacuated_stays_down_until_its_guests_are_removed(control: Control) -> None:
    server = control.boot()
    host = server["OS-EXT-SRV-ATTR:host"]
    driver = Driver(**{host: False})
    declared = DeclaredHosts(control.process.database, driver)
    declared.look()
    assert control.admin.post(f"/servers/{server['id']}/action", {"evacuate": {}}).status == 200
    control.settle()
    assert guests_on_disk(control.folder / "hypervisors")[host] == set(), "its agent can be reached, and has removed it"
    set_status(control, MigrationStatus.DONE)
    driver.said = {}
    declared.look()
    assert states(control)[host] == "down"
    set_status(control, MigrationStatus.COMPLETED)
    declared.look()
    assert states(control)[host] == "up"


def set_status(control: Control, status: MigrationStatus) -> None:
    """Set the status of all migrations."""
    changed = sa.update(t.server_migrations).values(status=status.value)
    control.process.database.write(lambda tx: tx.execute(changed))


@pytest.mark.parametrize("said", [RuntimeError("gone"), None, [1], {"node1": 1, "node2": 0}.items()])
def test_a_driver_that_fails_changes_nothing(control: Control, said: Any) -> None:
    driver = Driver(node1=False)
    declared = DeclaredHosts(control.process.database, driver)
    declared.look()
    driver.said = said
    with pytest.raises(Unavailable, match="Service-group driver Driver failed"):
        declared.look()
    assert states(control) == {"node1": "down", "node2": "up"}


@pytest.mark.parametrize("forced", [True, False])
def test_what_operators_force_and_what_a_driver_declares_are_independent(control: Control, forced: bool) -> None:
    declared = DeclaredHosts(control.process.database, Driver(node1=False))
    declared.look()
    body = {"host": "node1", "binary": "nova-compute", "forced_down": forced}
    assert control.admin.at("2.11").put("/os-services/force-down", body).status == 200
    assert states(control)["node1"] == "down"
    DeclaredHosts(control.process.database, None).look()
    assert states(control)["node1"] == ("down" if forced else "up")


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


@pytest.mark.usefixtures("examples")
def test_the_example_that_reads_a_database(new_control: NewControl, tmp_path: Path) -> None:
    other = tmp_path / "cluster.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE nodes (host TEXT, up BOOLEAN)")
        connection.execute("INSERT INTO nodes VALUES ('node1', 0), ('node2', 1)")
    control = with_driver(new_control, f"DatabaseStates\n[DatabaseStates]\nurl = sqlite:///{other}\n")
    wait_until(lambda: states(control) == {"node1": "down", "node2": "up"}, "the states of the driver")
    with sqlite3.connect(other) as connection:
        connection.execute("UPDATE nodes SET up = 1")
    wait_until(lambda: states(control) == {"node1": "up", "node2": "up"}, "the states of the driver")
    tasks = control.operator.get("/health").body["health"]["periodic_tasks"]
    assert [task["last_error"] for task in tasks if task["name"] == "service group"] == [None]


@pytest.mark.usefixtures("examples")
def test_the_example_that_reads_locks(new_control: NewControl, tmp_path: Path) -> None:
    folder = tmp_path / "members"
    folder.mkdir()
    with (folder / "node1").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        (folder / "node2").touch()
        control = with_driver(new_control, f"FolderStates\n[FolderStates]\nfolder = {folder}\n")
        wait_until(lambda: states(control) == {"node1": "up", "node2": "down"}, "the states of the driver")
    wait_until(lambda: states(control) == {"node1": "down", "node2": "down"}, "the states of the driver")


def with_driver(new_control: NewControl, name: str) -> Control:
    """Return a control process that looks at the hosts every half a second."""
    return new_control(more=f"[DEFAULT]\nservice_down_time = 5\nservicegroup_driver = host_states.{name}")


@pytest.mark.usefixtures("examples")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("memcache", r"\[DEFAULT\] servicegroup_driver takes db, .*kilonova\.servicegroup\.drivers"),
        ("host_states.join", "is not a class"),
        ("pathlib.Path", "has no states"),
        ("host_states.FolderStates", "FolderStates cannot be created"),
    ],
)
def test_a_driver_that_cannot_be_used_is_named_at_the_start(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        host_states(settings_of(tmp_path, more=f"[DEFAULT]\nservicegroup_driver = {name}\n"))


@pytest.mark.parametrize("name", ["db", "mc"])
def test_heartbeats_alone_decide_by_default(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert host_states(settings_of(tmp_path, more=f"[DEFAULT]\nservicegroup_driver = {name}\n")) is None
    assert ("mc has the effect of db" in caplog.text) == (name == "mc")


def test_rows_of_the_release_before_are_not_declared_down(control: Control) -> None:
    control.process.database.write(lambda tx: tx.execute(sa.update(t.services).values(declared_down=None)))
    assert states(control) == {"node1": "up", "node2": "up"}
