# SPDX-License-Identifier: Apache-2.0
"""Databases of an earlier release, whose processes were killed in the middle of work, go on with this one."""

import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from upgrade_clouds import FIXTURE, Cloud, DataFolder, OnPostgreSQL, opened, program
from upgrade_facts import facts, get

from kilonova.db import schema
from kilonova.model.instance import PowerState, VmState
from support.database_servers import DatabaseServer
from support.waiting import wait_until_idle
from support.world import check_world, guests_on_disk, power_states_on_disk

_STATUS = {"ACTIVE": VmState.ACTIVE, "SHUTOFF": VmState.STOPPED}


@pytest.fixture(params=[DataFolder.name, OnPostgreSQL.name])
def cloud(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cloud]:
    """What the earlier release left, with the present release started on it."""
    _unpack(request.param, tmp_path)
    if request.param == DataFolder.name:
        _unpack(request.param, tmp_path / "other")  # whoever looks at the file tidies up what the kill left
        _require_untouched(DataFolder(tmp_path / "other"))
        found: Cloud = DataFolder(tmp_path)
        found.start()
        yield found
        found.stop()
        return
    server: DatabaseServer = request.getfixturevalue("database_servers")["postgresql"]
    server.create("upgraded")
    psql = [program("psql"), "--quiet", "--no-psqlrc", "-v", "ON_ERROR_STOP=1", "-f", tmp_path / "data" / "dump.sql"]
    address = server.url("upgraded").replace("+psycopg", "")
    subprocess.run([*psql, address], check=True, capture_output=True, timeout=60)
    found = OnPostgreSQL(tmp_path, server.url("upgraded"))
    _require_untouched(found)
    found.start()
    yield found
    found.stop()
    server.drop("upgraded")


def _unpack(name: str, folder: Path) -> None:
    with tarfile.open(FIXTURE / f"{name}.tar.xz") as archive:
        archive.extractall(folder / "data", filter="data")


def _require_untouched(cloud: Cloud) -> None:
    """The database is still as the earlier release had it, and the journal holds what was under way."""
    unfinished = json.loads((cloud.folder / "facts.json").read_text(encoding="utf-8"))["unfinished"]
    with opened(cloud) as database, database.read() as connection:
        assert schema.current(database) == FIXTURE.name.removeprefix("schema-")
        rows = connection.execute(sa.text("SELECT kind, instance_uuid FROM workflows WHERE kind <> 'batch'"))
        journal = {row.instance_uuid: row.kind for row in rows}
    assert journal == {uuid: told["left_at"].split()[0] for uuid, told in unfinished.items()}
    assert set(journal.values()) == {"build", "delete", "start", "stop", "reboot", "hard-reboot"}


def test_a_killed_cloud_of_an_earlier_release_goes_on(cloud: Cloud) -> None:
    before = json.loads((cloud.folder / "facts.json").read_text(encoding="utf-8"))
    _require_everything_there_and_ended(cloud, before)
    _require_a_cloud_like_any_other(cloud, before)


def _require_everything_there_and_ended(cloud: Cloud, before: dict[str, Any]) -> None:
    unfinished = before["unfinished"]
    with opened(cloud) as database:
        assert schema.current(database) == schema.head()
        wait_until_idle(database)
        with database.read() as connection:
            states = check_world(connection, guests_on_disk(cloud.folder / "hypervisors"))

    assert get(cloud, "/compute/v2.1/flavors/last")["flavor"]["ram"] == 64, "what was written last is lost"
    after = facts(cloud)
    for part in ("servers", "devices"):  # those that are finished now are new
        after[part] = {uuid: said for uuid, said in after[part].items() if uuid not in unfinished}
    for group, said in after["groups"].items():
        known = before["groups"][group]["members"]
        said["members"] = [uuid for uuid in said["members"] if uuid not in unfinished or uuid in known]
    assert set(after) == set(before) - {"unfinished"}
    for part, said in after.items():
        assert said == before[part], part

    assert {uuid: states.get(uuid) for uuid in unfinished} == {
        uuid: _STATUS.get(told["ends"]) for uuid, told in unfinished.items()
    }
    power = {VmState.ACTIVE: PowerState.RUNNING, VmState.STOPPED: PowerState.SHUTDOWN}
    assert power_states_on_disk(cloud.folder / "hypervisors") == {
        uuid: power[VmState(state)] for uuid, state in states.items() if state != VmState.ERROR
    }


def _require_a_cloud_like_any_other(cloud: Cloud, before: dict[str, Any]) -> None:
    """New servers are built on what was left, within its groups and quotas; old ones can be deleted."""
    with opened(cloud) as database:
        wait_until_idle(database)
        (apart,) = [uuid for uuid, group in before["groups"].items() if group["policy"] == "anti-affinity"]
        image = next(iter(before["servers"].values()))["image"]
        server = {"name": "web4", "imageRef": image, "flavorRef": "1", "networks": "none"}
        body = {"server": server, "os:scheduler_hints": {"group": apart}}
        status, answer = cloud.ask("POST", "/compute/v2.1/servers", body, token="alice:wonder")
        assert status == 202, answer
        wait_until_idle(database)
        built = get(cloud, f"/compute/v2.1/servers/{answer['server']['id']}")["server"]
        assert built["status"] == "ACTIVE"
        (group,) = [
            each
            for each in get(cloud, "/compute/v2.1/os-server-groups?all_projects=1")["server_groups"]
            if each["id"] == apart
        ]
        homes = [
            get(cloud, f"/compute/v2.1/servers/{uuid}")["server"]["OS-EXT-SRV-ATTR:host"] for uuid in group["members"]
        ]
        assert len(homes) == len(set(homes)) == 4
        for shown in get(cloud, "/compute/v2.1/servers?all_tenants=1")["servers"]:
            assert cloud.ask("DELETE", f"/compute/v2.1/servers/{shown['id']}")[0] == 204
        wait_until_idle(database)
        with database.read() as connection:
            assert check_world(connection, guests_on_disk(cloud.folder / "hypervisors")) == {}
        assert get(cloud, "/compute/v2.1/os-quota-sets/wonder/detail")["quota_set"]["cores"]["in_use"] == 0
