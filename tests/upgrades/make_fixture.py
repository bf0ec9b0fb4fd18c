# SPDX-License-Identifier: Apache-2.0
"""Create the databases of ``tests/fixtures/schema-…`` with the installed release; see README.md there.

::

    first process   creates everything that is settled; its API responses become facts.json
    second process  gets work for hosts that do not answer, and is killed
    third process   takes that work over in vain, gets builds that it never decides, and is killed

"hung" does not answer because its hypervisor file is replaced by a pipe without a reader, "shaky" because removing a
guest takes it an hour, and "leaving" because moves from it take an hour. The third process decides nothing because its
scheduler driver never answers. All rows are written by these processes.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml

from kilonova.cli.wiring.control import image_id
from kilonova.db.core import tables as t
from support.broker import Broker
from support.database_servers import PostgreSQL, running
from upgrades.cloud_of_agents import ARCHIVED, OfAgents
from upgrades.upgrade_clouds import FIXTURES, Cloud, DataFolder, OnPostgreSQL, opened, program
from upgrades.upgrade_facts import facts

_FIXTURE = FIXTURES / "schema-0014"
_PROJECT = "alice:wonder"
_MANY = 101
_DRIVER = """
import threading

from kilonova.scheduler.driver import Scheduler

class NeverDecides(Scheduler):
    def select_destinations(self, *args, **kwargs):
        threading.Event().wait()
"""


def post(cloud: Cloud, path: str, body: Any, *, token: str = "admin", wanted: Sequence[int] = (200, 201, 202)) -> Any:
    status, answer = cloud.ask("POST", f"/compute/v2.1{path}", body, token=token)
    assert status in wanted, (path, answer)
    return answer


def boot(cloud: Cloud, name: str, where: str | None, flavor: str = "1", group: str | None = None, **more: Any) -> str:
    """Request servers and return the uuid of the first. ``where``: a zone, or ``ZONE:HOST``."""
    server = {"name": name, "imageRef": image_id("cirros"), "flavorRef": flavor, "networks": "none", **more}
    if where is not None:
        server["availability_zone"] = where
    body = {"server": server} | ({"os:scheduler_hints": {"group": group}} if group else {})
    token = "admin:wonder" if where and ":" in where else _PROJECT
    uuid: str = post(cloud, "/servers", body, token=token)["server"]["id"]
    return uuid


def wait(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"timeout after a minute: {what}"
        time.sleep(0.05)


def journal(cloud: Cloud) -> dict[str, tuple[str, str, bool]]:
    """Return instance uuid → kind, step and undo flag of its workflow; a batch uses its own uuid."""
    with opened(cloud) as database, database.read() as connection:
        rows = connection.execute(sa.select(t.workflows)).all()
    return {row.instance_uuid or row.uuid: (row.kind, row.step, row.undoing) for row in rows}


def furnish(cloud: Cloud) -> dict[str, str]:
    """Create all settled resources. Returns name → uuid of the servers and groups that later steps use."""
    flavors: tuple[dict[str, Any], ...] = (
        {"id": "1", "name": "m1.tiny", "vcpus": 1, "ram": 512, "disk": 1},
        {
            "id": "2",
            "name": "pinned",
            "vcpus": 2,
            "ram": 2048,
            "disk": 1,
            "extra_specs": {"hw:cpu_policy": "dedicated"},
        },
        {
            "id": "3",
            "name": "pinned.gpu",
            "vcpus": 4,
            "ram": 4096,
            "disk": 1,
            "extra_specs": {"hw:cpu_policy": "dedicated", "pci_passthrough:alias": "gpu:1"},
        },
        {"id": "4", "name": "paged", "vcpus": 2, "ram": 2048, "disk": 1, "extra_specs": {"hw:mem_page_size": "1GB"}},
        {"id": "5", "name": "m1.small", "vcpus": 2, "ram": 1024, "disk": 1},
    )
    for flavor in flavors:
        specs = flavor.pop("extra_specs", None)
        post(cloud, "/flavors", {"flavor": flavor})
        if specs:
            post(cloud, f"/flavors/{flavor['id']}/os-extra_specs", {"extra_specs": specs})
    zones = {
        "main": ["plain1", "plain2", "plain3", "pinning"],
        "repair": ["shaky", "steady"],
        "far": ["hung"],
        "moving": ["leaving", "landing"],
    }
    for zone, hosts in zones.items():
        made = post(cloud, "/os-aggregates", {"aggregate": {"name": zone, "availability_zone": zone}})["aggregate"]
        for host in hosts:
            post(cloud, f"/os-aggregates/{made['id']}/action", {"add_host": {"host": host}})
    assert (
        cloud.ask("PUT", "/compute/v2.1/os-quota-sets/wonder", {"quota_set": {"instances": 500, "cores": 1000}})[0]
        == 200
    )
    known: dict[str, str] = {}
    for policy in ("anti-affinity", "affinity", "soft-anti-affinity"):
        asked = {"server_group": {"name": policy, "policy": policy}}
        known[policy] = post(cloud, "/os-server-groups", asked, token=_PROJECT)["server_group"]["id"]

    boot(cloud, "web1", "main", group=known["anti-affinity"], metadata={"role": "web"})
    boot(cloud, "web2", "main", group=known["anti-affinity"], metadata={"role": "web"})
    settle(cloud)  # so that the next member is placed on the same host
    known["db1"] = boot(cloud, "db1", "main", group=known["affinity"])
    settle(cloud)
    boot(cloud, "db2", "main", group=known["affinity"])
    boot(cloud, "soft", "main", group=known["soft-anti-affinity"], min_count=3, max_count=3)
    boot(cloud, "pinned1", "main", "2")
    boot(cloud, "pinned2", "main", "2")
    boot(cloud, "learner", "main", "3")
    boot(cloud, "paged", "main", "4")
    boot(cloud, "refused", "repair", "3")
    for name in ("to-stop", "to-reboot", "to-reboot-hard", "to-delete"):
        known[name] = boot(cloud, name, "far")
    known["to-delete-pinned"] = boot(cloud, "to-delete-pinned", "far", "2")
    known["to-start"] = boot(cloud, "to-start", "far")
    known["stopped"] = boot(cloud, "stopped", "main")
    for name in ("resized", "confirmed", "reverted", "moved", "moved-live"):
        known[name] = boot(cloud, name, "main")
    for name in ("to-resize", "to-migrate", "to-migrate-live", "to-revert"):
        known[name] = boot(cloud, name, "moving:leaving")
    gone = boot(cloud, "gone", "main", group=known["anti-affinity"])
    settle(cloud)
    for name in ("to-start", "stopped"):
        act(cloud, known[name], {"os-stop": None})
    for name in ("resized", "confirmed", "reverted", "to-revert"):
        act(cloud, known[name], {"resize": {"flavorRef": "5"}})
    act(cloud, known["moved"], {"migrate": None}, token="admin:wonder")
    act(cloud, known["moved-live"], {"os-migrateLive": {"host": None, "block_migration": "auto"}}, token="admin:wonder")
    settle(cloud)
    for name in ("confirmed", "moved"):
        act(cloud, known[name], {"confirmResize": None})
    act(cloud, known["reverted"], {"revertResize": None})
    assert cloud.ask("DELETE", f"/compute/v2.1/servers/{gone}")[0] == 204
    settle(cloud)
    home = cloud.ask("GET", f"/compute/v2.1/servers/{known['db1']}")[1]["server"]["OS-EXT-SRV-ATTR:host"]
    other = next(host for host in ("plain1", "plain2", "plain3") if host != home)
    disabled = {"status": "disabled", "disabled_reason": "a fan is broken"}
    services = cloud.ask("GET", f"/compute/v2.1/os-services?host={other}")[1]["services"]
    assert cloud.ask("PUT", f"/compute/v2.1/os-services/{services[0]['id']}", disabled)[0] == 200
    return known


def act(cloud: Cloud, uuid: str, action: dict[str, Any], token: str = _PROJECT) -> str:
    """Run an action of a server, and return its uuid."""
    post(cloud, f"/servers/{uuid}/action", action, token=token, wanted=(202, 204))
    return uuid


def settle(cloud: Cloud) -> None:
    wait(lambda: not journal(cloud), "all workflows to end")


def leave_unanswered(cloud: Cloud, known: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Request work on hosts that do not answer. Returns uuid → final status, and kind and step of its workflow."""

    def ask(name: str, action: dict[str, Any], token: str = _PROJECT) -> str:
        return act(cloud, known[name], action, token)

    ends: dict[str, tuple[str, str]] = {}
    ends[ask("to-stop", {"os-stop": None})] = "SHUTOFF", "stop act"
    time.sleep(1)  # wait until the host is busy, so that all later orders queue
    ends[ask("to-reboot", {"reboot": {"type": "SOFT"}})] = "ACTIVE", "reboot act"
    ends[ask("to-reboot-hard", {"reboot": {"type": "HARD"}})] = "ACTIVE", "hard-reboot act"
    ends[ask("to-start", {"os-start": None})] = "ACTIVE", "start act"
    ends[ask("to-resize", {"resize": {"flavorRef": "5"}})] = "VERIFY_RESIZE", "resize move-away"
    ends[ask("to-migrate", {"migrate": None}, "admin:wonder")] = "VERIFY_RESIZE", "migrate move-away"
    live = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
    ends[ask("to-migrate-live", live, "admin:wonder")] = "ACTIVE", "live-migrate copy"
    ends[ask("to-revert", {"revertResize": None})] = "ACTIVE", "revert-resize return-home"
    ends[boot(cloud, "half-built", "far")] = "ACTIVE", "build spawn"
    ends[boot(cloud, "half-built-pinned", "far", "2")] = "ACTIVE", "build spawn"
    ends[boot(cloud, "half-built-web", "far", group=known["anti-affinity"])] = "ACTIVE", "build spawn"
    given_up = boot(cloud, "half-built-and-deleted", "far", "2")
    ends[boot(cloud, "half-undone", "repair")] = "ACTIVE", "build spawn undoing"
    wait(lambda: journal(cloud).get(given_up, ("", ""))[1] == "spawn", "the build order to be sent")
    for uuid in (known["to-delete"], known["to-delete-pinned"], given_up):
        assert cloud.ask("DELETE", f"/compute/v2.1/servers/{uuid}")[0] == 204
        ends[uuid] = "gone", "delete destroy"
    wait(lambda: is_left(cloud, ends), "all workflows to reach their steps")
    return ends


def leave_undecided(cloud: Cloud, known: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Request builds that are never decided."""
    ends: dict[str, tuple[str, str]] = {}
    ends[boot(cloud, "undecided-db", "main", group=known["affinity"])] = "ACTIVE", "build claim"
    ends[boot(cloud, "undecided", None)] = "ACTIVE", "build claim"
    first = boot(cloud, "many", None, min_count=_MANY, max_count=_MANY)
    shown = cloud.ask("GET", f"/compute/v2.1/servers/{first}")[1]["server"]
    reservation = shown["OS-EXT-SRV-ATTR:reservation_id"]
    found = cloud.ask("GET", f"/compute/v2.1/servers?all_tenants=1&reservation_id={reservation}")[1]["servers"]
    ends.update({server["id"]: ("ACTIVE", "build claim") for server in found})
    assert len(found) == _MANY
    wait(lambda: is_left(cloud, ends), "all workflows to reach their steps")
    time.sleep(1)
    return ends


def is_left(cloud: Cloud, ends: dict[str, tuple[str, str]]) -> bool:
    found = journal(cloud)
    told = {uuid: f"{kind} {step}{' undoing' * undoing}" for uuid, (kind, step, undoing) in found.items()}
    return all(told.get(uuid) == where for uuid, (_, where) in ends.items())


def make(cloud: Cloud) -> None:
    """Create one fixture, except for the archive."""
    cloud.start()
    known = furnish(cloud)
    said = facts(cloud)
    cloud.stop()

    pipe = cloud.folder / "hypervisors" / "hung.new"
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    slow = yaml.safe_load(cloud.scenario.read_text(encoding="utf-8"))
    for host in slow["hosts"]:
        if host["name"] == "shaky":
            host.update(failing_spawns=-1, destroy_delay_s=3600.0)
        if host["name"] == "leaving":
            host.update(move_delay_s=3600.0, live_migration_s=3600.0)
    scenario = cloud.folder.parent / "slow.yaml"
    scenario.write_text(yaml.safe_dump(slow), encoding="utf-8")
    cloud.start(scenario)
    ends = leave_unanswered(cloud, known)
    cloud.kill()

    plug_ins = cloud.folder.parent / "plug_ins"
    plug_ins.mkdir()
    (plug_ins / "never_decides.py").write_text(_DRIVER, encoding="utf-8")
    cloud.start(scenario, f"[scheduler]\nplugin_path = {plug_ins}\ndriver = NeverDecides\ndriver_timeout = 3600\n")
    ends |= leave_undecided(cloud, known)
    wait(lambda: is_left(cloud, ends), "the workflows that were taken over to reach their steps")
    # Reading an SQLite database checkpoints its WAL; rows written after this line exist only in the WAL.
    post(cloud, "/flavors", {"flavor": {"id": "last", "name": "last", "vcpus": 1, "ram": 64, "disk": 0}})
    cloud.kill()
    pipe.unlink()

    servers = {uuid: shown for uuid, shown in said["servers"].items() if uuid not in ends}
    said |= {
        "servers": servers,
        "devices": {uuid: said["devices"][uuid] for uuid in servers if uuid in said["devices"]},
    }
    unfinished = {uuid: {"ends": end, "left_at": where} for uuid, (end, where) in ends.items()}
    text = json.dumps({**said, "unfinished": unfinished}, indent=1, sort_keys=True)
    (cloud.folder / "facts.json").write_text(f"{text}\n", encoding="utf-8")


def pack(folder: Path, name: str) -> None:
    """Archive the data files of a cloud's folder."""
    kept = [
        *folder.glob("kilonova.db*"),
        *folder.glob("dump.sql"),
        *folder.glob("hypervisors/*.json"),
        folder / "facts.json",
    ]
    with tarfile.open(_FIXTURE / f"{name}.tar.xz", "w:xz", preset=9) as archive:
        for path in sorted(kept):
            entry = archive.gettarinfo(path, str(path.relative_to(folder)))
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = ""
            with path.open("rb") as content:
                archive.addfile(entry, content)


def main() -> None:
    if len(sys.argv) == 1:  # start again with a fixed host name, which is stored with services
        script = 'hostname control.example && exec "$0" "$@"'
        os.execvp("unshare", ["unshare", "--uts", "sh", "-c", script, sys.executable, __file__, "renamed"])
    with tempfile.TemporaryDirectory(prefix="kilonova-fixture-") as name:
        folder = Path(name)
        for each in ("sqlite", "server", "agents"):
            (folder / each).mkdir()
        of_sqlite = DataFolder(folder / "sqlite", _FIXTURE / "scenario.yaml")
        make(of_sqlite)
        pack(of_sqlite.folder, of_sqlite.name)
        server = PostgreSQL()
        with running(server):
            server.create("kilonova")
            make_on_server(
                OnPostgreSQL(folder / "server", _FIXTURE / "scenario.yaml", server.url("kilonova")), server, "kilonova"
            )
            broker = Broker()
            try:
                broker.start()
                server.create("agents")
                url = server.url("agents")
                of_agents = OfAgents(folder / "agents", _FIXTURE / "scenario.yaml", url, broker, ARCHIVED)
                make_on_server(of_agents, server, "agents")
            finally:
                broker.stop()


def make_on_server(cloud: OnPostgreSQL, server: PostgreSQL, database: str) -> None:
    """Create a fixture with a dump of its database."""
    make(cloud)
    url = f"postgresql://kilonova@127.0.0.1:{server.port}/{database}"
    options = ("--no-owner", "--no-privileges", "--rows-per-insert=200", f"--file={cloud.folder}/dump.sql")
    subprocess.run([program("pg_dump"), *options, url], check=True)
    pack(cloud.folder, cloud.name)


if __name__ == "__main__":
    main()
