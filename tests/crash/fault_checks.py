# SPDX-License-Identifier: Apache-2.0
"""Invariants of a cloud during and after faults, and a report on the servers that violate them."""

import contextlib
import re
import signal
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import amqp
import orjson
import sqlalchemy as sa

from crash.fault_cloud import CONTROL, FaultCloud
from crash.http_load import Promised
from crash.launcher import LOOKED_SUFFIX
from kilonova.compute.virt.fake.guests import Origin
from kilonova.db.audits import audit
from kilonova.db.core import tables as t
from kilonova.db.database import Database
from kilonova.messaging.rabbit.topology import from_agent, to_agent
from kilonova.model.server_migration import MigrationType
from support.networks import check_ports
from support.waiting import wait_until
from support.world import check_guests, check_images, check_world, guests_on_disk

_LOOK_EVERY_S = 0.3
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Additional seconds for host work outside workflows, such as the removal of a deleted server's guest.
_LATER_S = 30.0
_STORIES, _LINES = 3, 120


class TwoHostsWatch:
    """Thread that polls the hypervisors for two complete guests of one server.

    The destination's guest of a running live migration is not complete.
    """

    def __init__(self, hypervisors: Path) -> None:
        self._hypervisors = hypervisors
        self._seen: dict[Path, tuple[tuple[int, int], set[str]]] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        #: Server → the hosts that had its guest at the same time.
        self.found: dict[str, frozenset[str]] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_LOOK_EVERY_S):
            self.look()

    def look(self) -> None:
        hosts: dict[str, list[Path]] = defaultdict(list)
        for file in self._hypervisors.glob("*.json"):
            for uuid in self._whole(file):
                hosts[uuid].append(file)
        for uuid, files in hosts.items():
            # Each file is read twice, because the guest may have moved after the first file was read.
            if len(files) > 1 and all(uuid in self._whole(file) for file in (*files, *files)):
                self.found[uuid] = frozenset(file.stem for file in files)

    def _whole(self, file: Path) -> set[str]:
        """Return the servers with a complete guest on a host."""
        try:
            status = file.stat()
            version = status.st_ino, status.st_mtime_ns
            if file not in self._seen or self._seen[file][0] != version:
                stored: dict[str, Any] = orjson.loads(file.read_bytes())
                guests = {uuid: place["guest"]["origin"] for uuid, place in stored.items() if place["guest"]}
                whole = {uuid for uuid, origin in guests.items() if origin != Origin.INCOMING}
                self._seen[file] = version, whole
        except FileNotFoundError:
            return set()
        return self._seen[file][1]


def come_to_rest(cloud: FaultCloud, *, at_most_s: float) -> None:
    """Wait until no workflow is left. Raises: AssertionError on timeout, with the stuck workflows."""
    flow = t.workflows.c
    wanted = sa.select(
        flow.instance_uuid, flow.kind, flow.step, flow.undoing, flow.waiting, flow.stuck, flow.failure, flow.owner
    )
    left: list[Any] = []
    database = Database(cloud.url)

    def is_at_rest() -> bool:
        with database.read() as connection:
            left[:] = connection.execute(wanted).all()
        return not left

    try:
        wait_until(is_at_rest, "all workflows to end", at_most_s=at_most_s, every_s=0.2)
    except AssertionError:
        raise AssertionError("stuck: " + "; ".join(str(row) for row in left)) from None
    finally:
        database.close()


def check(cloud: FaultCloud, promised: Promised, watch: TwoHostsWatch) -> dict[str, str]:
    """Check every invariant of a cloud at rest. Returns uuid → vm_state. Raises: AssertionError."""
    database = Database(cloud.url)
    try:
        states = _check_world(cloud, database)
        left = _left_hosts(database)
    finally:
        database.close()
    promised.check(set(states))
    watch.look()
    on_two_hosts = {uuid: hosts for uuid, hosts in watch.found.items() if not hosts & left.get(uuid, frozenset())}
    assert not on_two_hosts, f"servers with guests on two hosts at once: {on_two_hosts}"
    _check_mirrors(cloud)
    _check_kept_decisions(cloud)
    return states


def _check_world(cloud: FaultCloud, database: Database) -> dict[str, str]:
    until = time.monotonic() + _LATER_S
    while True:
        try:
            with database.read() as connection:
                states = check_world(connection, guests_on_disk(cloud.hypervisors))
                check_guests(connection, cloud.hypervisors)
                check_images(connection, cloud.glance.all(), cloud.hypervisors)
                found = [f"{each.where}: {each.what}; {each.why}" for each in audit.find_all(connection)]
                assert not found, found
            _check_ports(cloud, database)
        except AssertionError:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)
        else:
            return states


def _check_ports(cloud: FaultCloud, database: Database) -> None:
    """Remove the stray ports of deleted servers, which Neutron made for dead callers, and check all other ports."""
    neutron = cloud.neutron
    control = cloud.controls[0]
    status, body = control.operate("GET", "/stray-ports")
    assert status == 200, body
    for stray in body["stray_ports"]:
        if stray["reason"] == "deleted":
            assert stray["port"] in neutron.unsure, f"the port of a deleted server is left: {stray}"
            status, answer = control.operate("POST", "/stray-ports/remove", {"remove": {"port": stray["port"]}})
            assert status == 204, answer
            neutron.removed.add(stray["port"])
    with neutron.fake._lock:
        assert set(neutron.of_user) <= neutron.fake.store["ports"].keys(), "a port of the user was deleted"
        unsure, refused = neutron.unsure, neutron.refused | neutron.unsure  # unknown ports are not bound again
        check_ports(database, neutron.fake, cloud.hypervisors, unsure=unsure, refused=refused)


def _left_hosts(database: Database) -> dict[str, frozenset[str]]:
    """Return server → hosts it was evacuated from; its guests stay there until the agent returns."""
    migration = t.server_migrations.c
    wanted = sa.select(migration.instance_uuid, migration.source_host)
    left = defaultdict(set)
    with database.read() as connection:
        for uuid, host in connection.execute(wanted.where(migration.migration_type == MigrationType.EVACUATION.value)):
            left[uuid].add(host)
    return {uuid: frozenset(hosts) for uuid, hosts in left.items()}


def _check_mirrors(cloud: FaultCloud) -> None:
    looked = [control.log.with_suffix(LOOKED_SUFFIX) for control in cloud.controls]
    for control, file in zip(cloud.controls, looked, strict=True):
        file.unlink(missing_ok=True)
        control.signal(signal.SIGUSR1)
    wait_until(lambda: all(file.exists() for file in looked), "all mirrors to be checked", at_most_s=60, every_s=0.05)
    for control, file in zip(cloud.controls, looked, strict=True):
        assert not file.read_text(), f"wrong mirror of {control.name}: {file.read_text()}"


def _check_kept_decisions(cloud: FaultCloud) -> None:
    """Assert that no control process has found a decision from kept verdicts that differs from the whole engine's."""
    logs = [control.log.read_text(errors="replace") for control in cloud.controls]
    wrong = [line for log in logs for line in log.splitlines() if "A kept decision differs" in line]
    assert not wrong, "\n".join(wrong[:20])


def tell_stories(cloud: FaultCloud, problem: str) -> str:
    """Return what database, hypervisors, logs and queues contain about the servers named in a violation."""
    parts = [_queues(cloud)]
    database = Database(cloud.url)
    try:
        with database.read() as connection:
            known = set(connection.execute(sa.select(t.instances.c.uuid)).scalars())
            uuids = [uuid for uuid in dict.fromkeys(_UUID.findall(problem)) if uuid in known]
            parts += [_story(cloud, connection, uuid) for uuid in uuids[:_STORIES]]
    finally:
        database.close()
    return "\n".join(parts)


def _story(cloud: FaultCloud, connection: sa.Connection, uuid: str) -> str:
    told = [f"--- server {uuid}"]
    tables = (t.instances, "uuid"), (t.server_migrations, "instance_uuid"), (t.workflows, "instance_uuid")
    for table, column in (*tables, (t.instance_faults, "instance_uuid")):
        rows = connection.execute(sa.select(table).where(table.c[column] == uuid)).mappings()
        told += [
            f"{table.name}: { {key: value for key, value in row.items() if value not in (None, '')} }" for row in rows
        ]
    told += [f"port: {port}" for port in cloud.neutron.fake.ports_of(uuid)]
    networks = connection.execute(sa.select(t.instance_networks).where(t.instance_networks.c.instance_uuid == uuid))
    told += [f"interfaces: {dict(row)}" for row in networks.mappings()]
    for file in sorted(cloud.hypervisors.glob("*.json")):
        place = orjson.loads(file.read_bytes()).get(uuid)
        if place is not None:
            told.append(f"on {file.stem}: {place}")
    lines = []
    for process in cloud.processes:
        with contextlib.suppress(FileNotFoundError), process.log.open() as log:
            lines += [f"{line[:24]} {process.name}{line[23:].rstrip()}" for line in log if uuid in line]
    return "\n".join([*told, *sorted(lines)[-_LINES:]])


def _queues(cloud: FaultCloud) -> str:
    """Return the number of queued messages to and from each agent."""
    waiting = []
    try:
        with amqp.Connection(f"127.0.0.1:{cloud.broker.port}", userid=CONTROL, password=CONTROL) as connection:
            for agent in cloud.agents:
                for queue in (to_agent(agent.name), from_agent(agent.name)):
                    found = connection.channel().queue_declare(queue, passive=True)
                    if found.message_count or not found.consumer_count:
                        waiting.append(f"{queue}: {found.message_count} messages, {found.consumer_count} readers")
    except (OSError, amqp.AMQPError) as error:
        return f"broker: {error!r}"
    return f"broker: {'; '.join(waiting) or 'no queue has messages, all are read'}"
