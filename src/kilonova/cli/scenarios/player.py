# SPDX-License-Identifier: Apache-2.0
"""Plays a scenario in a running cloud. Reads use the cloud's API; changes use the stock ``openstack`` client."""

import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from kilonova.cli.cloud.connection import CloudName
from kilonova.cli.cloud.options import OPERATOR, Api
from kilonova.cli.cloud.printing import host_text, hosts_text
from kilonova.cli.up import tiny_image
from kilonova.cli.up.seeding import FLAVORS
from kilonova.errors import ConfigurationError, InvalidRequest, NotFound, Unavailable
from kilonova.records import dataclass
from kilonova.scenario.model import (
    Scenario,
    ScenarioAggregate,
    ScenarioFlavor,
    ScenarioGroup,
    ScenarioImage,
    ScenarioServer,
)
from kilonova.scenario.outcome import SPAWN, Landing

_FIRST_FLAVORS = frozenset(flavor.name for flavor in FLAVORS)
_SETTLE_S = 120.0
_POLL_S = 0.3
_FLAVORS_WITH_SPECS = "2.61"


class OpenStackClient:
    """The installed ``openstack`` client, run as one user. ``say``: called with each command line before it runs."""

    def __init__(self, cloud: CloudName, say: Callable[[str], None]) -> None:
        self._cloud = cloud
        self._say = say
        beside = Path(sys.executable).with_name("openstack")
        self._program = str(beside) if beside.exists() else shutil.which("openstack")

    def run(self, *words: str) -> None:
        """Run one command. Raises: Unavailable with the last line of the client's output."""
        if self._program is None:
            raise ConfigurationError("the `openstack` client is not installed")
        arguments = ("--os-cloud", self._cloud.name, *words)
        self._say(f"$ openstack {shlex.join(arguments)}")
        done = self._finished(self._program, arguments, self._cloud.environment)
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["no output"]
            raise Unavailable(f"`openstack {' '.join(words[:2])} …` failed: {last[0]}")

    def _finished(
        self, program: str, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run the program until it ends. A subclass may run it in another way."""
        return subprocess.run(  # noqa: S603
            [program, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


class Client(Protocol):
    """A runner of ``openstack`` client commands."""

    def run(self, *words: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Seat:
    """The connections of one user of the cloud: ``api`` for reads, ``client`` for changes."""

    api: Api
    client: Client


@dataclass(frozen=True, slots=True)
class Story:
    """Result of a request for a server. ``landing``: its host, or the failure. ``why``: the reasons, one text each."""

    landing: Landing
    why: tuple[str, ...]


class ScenarioPlayer:
    """Plays a scenario whose project references have been replaced by ids.

    ``seats``: project → connections of its user.
    """

    def __init__(self, scenario: Scenario, seats: Mapping[str, Seat]) -> None:
        self._scenario = scenario
        self._seats = seats
        self._admin = seats["admin"]

    # --- reading the cloud --------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Create missing aggregates, flavors, images and server groups. Disable services that the scenario disables."""
        self._disable()
        aggregates = _by_name(self._aggregates())
        for aggregate in self._scenario.aggregates:
            self._make_aggregate(aggregate, aggregates.get(aggregate.name))
        flavors = _by_name(self._flavors())
        for flavor in self._scenario.flavors:
            self._make_flavor(flavor, flavors.get(flavor.name))
        images = _by_name(self._images())
        for image in self._scenario.images:
            self._make_image(image, images.get(image.name))
        for group in self._scenario.groups:
            if group.name not in _by_name(self._groups(group.project)):
                self._make_group(group)

    def _aggregates(self) -> Sequence[Any]:
        listed: Sequence[Any] = self._admin.api.get("compute", "/os-aggregates")["aggregates"]
        return listed

    def _flavors(self) -> Sequence[Any]:
        found = self._admin.api.get("compute", "/flavors/detail", _FLAVORS_WITH_SPECS, is_public="None")
        listed: Sequence[Any] = found["flavors"]
        return listed

    def _images(self) -> Sequence[Any]:
        names = "in:" + ",".join(f'"{image.name}"' for image in self._scenario.images)
        listed: Sequence[Any] = self._admin.api.get("image", "/v2/images", name=names)["images"]
        return listed

    def _groups(self, project: str) -> Sequence[Any]:
        listed: Sequence[Any] = self._seats[project].api.get("compute", "/os-server-groups")["server_groups"]
        return listed

    def _servers(self, project: str) -> dict[str, Any]:
        """Return name → server for those servers of the scenario that exist in a project."""
        listed = self._seats[project].api.get("compute", "/servers/detail")["servers"]
        names = {name for asked in self._scenario.servers if asked.project == project for name in asked.names}
        return {server["name"]: server for server in listed if server["name"] in names}

    # --- creating resources -------------------------------------------------------------------------------------------

    def _disable(self) -> None:
        wanted = {host.name: host.disabled for host in self._scenario.hosts if host.disabled}
        if not wanted:
            return
        for service in self._admin.api.get("compute", "/os-services", binary="nova-compute")["services"]:
            reason = wanted.get(service["host"])
            if reason and service["status"] != "disabled":
                self._admin.client.run(
                    *("compute", "service", "set", "--disable", "--disable-reason", reason),
                    *(service["host"], "nova-compute"),
                )

    def _make_aggregate(self, wanted: ScenarioAggregate, found: Any) -> None:
        run = self._admin.client.run
        if found is None:
            zone = ("--zone", wanted.zone) if wanted.zone else ()
            run("aggregate", "create", *zone, wanted.name)
            found = {"metadata": {}, "hosts": []}
        missing = {key: value for key, value in wanted.metadata.items() if found["metadata"].get(key) != value}
        if missing:
            run("aggregate", "set", *_properties(missing), wanted.name)
        for host in wanted.hosts:
            if host not in found["hosts"]:
                run("aggregate", "add", "host", wanted.name, host)

    def _make_flavor(self, wanted: ScenarioFlavor, found: Any) -> None:
        run = self._admin.client.run
        if found is None:
            number = ("--id", wanted.id) if wanted.id else ()
            size = ("--ram", wanted.memory_mib, "--disk", wanted.disk_gib, "--vcpus", wanted.vcpus)
            private = () if wanted.public else ("--private",)
            run("flavor", "create", *number, *map(str, size), *private, wanted.name)
            found = {"extra_specs": {}}
        elif (found["ram"], found["disk"], found["vcpus"]) != (wanted.memory_mib, wanted.disk_gib, wanted.vcpus):
            raise InvalidRequest(f"flavor {wanted.name} exists with another size: delete or rename it first")
        missing = {key: value for key, value in wanted.extra_specs.items() if found["extra_specs"].get(key) != value}
        if missing:
            run("flavor", "set", *_properties(missing), wanted.name)

    def _make_image(self, wanted: ScenarioImage, found: Any) -> None:
        run = self._admin.client.run
        if found is None:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "tiny.raw"
                file.write_bytes(tiny_image.tiny_image())
                formats = ("--disk-format", wanted.disk_format, "--container-format", "bare")
                run(
                    *("image", "create", "--public", *formats, "--file", str(file)),
                    *_properties(wanted.properties),
                    wanted.name,
                )
            return
        missing = {key: value for key, value in wanted.properties.items() if found.get(key) != value}
        if missing:
            run("image", "set", *_properties(missing), wanted.name)

    def _make_group(self, wanted: ScenarioGroup) -> None:
        limit = wanted.max_server_per_host
        rule = ("--rule", f"max_server_per_host={limit}") if limit is not None else ()
        run = self._seats[wanted.project].client.run
        run("server", "group", "create", "--policy", wanted.policy, *rule, wanted.name)

    def create_servers(self) -> None:
        """Create the missing servers, one request after the other, and wait until each request is finished."""
        for asked in self._scenario.servers:
            there = self._servers(asked.project).keys() & set(asked.names)
            if there and there != set(asked.names):
                raise InvalidRequest(f"only some of {', '.join(asked.names)} exist: run with --clean first")
            if not there:
                self._create(asked)
            self._wait_for(asked)

    def _create(self, asked: ScenarioServer) -> None:
        words = ["server", "create", "--flavor", asked.flavor, "--image", asked.image]
        if asked.zone:
            words += ["--availability-zone", asked.zone]
        if asked.group:
            words += ["--hint", f"group={_by_name(self._groups(asked.project))[asked.group]['id']}"]
        for name, value in asked.hints.items():
            words += ["--hint", f"{name}={value}"]
        if asked.count > 1:
            words += ["--min", str(asked.count), "--max", str(asked.count)]
        self._seats[asked.project].client.run(*words, asked.name)

    def _wait_for(self, asked: ScenarioServer) -> None:
        deadline = time.monotonic() + _SETTLE_S
        while True:
            servers = self._servers(asked.project)
            building = [name for name in asked.names if name not in servers or servers[name]["status"] == "BUILD"]
            if not building:
                return
            if time.monotonic() > deadline:
                raise Unavailable(f"{', '.join(building)} did not leave BUILD within {_SETTLE_S:.0f} s")
            time.sleep(_POLL_S)

    # --- results ------------------------------------------------------------------------------------------------------

    def stories(self) -> dict[str, Story]:
        """Return server name → its host or failure, with the explanation of its scheduling decisions."""
        listed = self._admin.api.get("compute", "/servers/detail", all_tenants="1")["servers"]
        hosts = {server["id"]: server.get("OS-EXT-SRV-ATTR:host") for server in listed}
        return {
            name: self._story(server, hosts.get(server["id"]))
            for project in self._seats
            for name, server in self._servers(project).items()
        }

    def _story(self, server: Mapping[str, Any], host: str | None) -> Story:
        decisions = self._decisions(server["id"])
        why = [line for decision in decisions for line in _reasons(decision, decisions)]
        if server["status"] != "ERROR":
            return Story(Landing(host), tuple(why))
        emptied = [step["rule"] for step in decisions[-1]["steps"] if not step["hosts_out"]] if decisions else []
        fault = server.get("fault", {}).get("message", "no fault is recorded")
        return Story(Landing(None, emptied[-1] if emptied else SPAWN), (*why, f"fault: {fault}"))

    def _decisions(self, server_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the scheduling decisions of a server, oldest first.

        Retries, because decisions are stored asynchronously.
        """
        for attempt in range(10):
            try:
                found = self._admin.api.get(OPERATOR, f"/decisions/{server_id}")
            except NotFound:
                time.sleep(_POLL_S if attempt else 0)
            else:
                decisions: Sequence[Mapping[str, Any]] = found["decisions"]
                return decisions[::-1]
        return ()

    # --- clean-up -----------------------------------------------------------------------------------------------------

    def clean(self) -> None:
        """Delete all resources with names of the scenario, except resources that every new cloud has."""
        for project, seat in self._seats.items():
            self._delete_servers(project)
            wanted = {group.name for group in self._scenario.groups if group.project == project}
            if groups := [group["id"] for group in self._groups(project) if group["name"] in wanted]:
                seat.client.run("server", "group", "delete", *groups)
        run = self._admin.client.run
        aggregates = _by_name(self._aggregates())
        for aggregate in self._scenario.aggregates:
            if (found := aggregates.get(aggregate.name)) is not None:
                for host in found["hosts"]:
                    run("aggregate", "remove", "host", aggregate.name, host)
                run("aggregate", "delete", aggregate.name)
        flavors = {flavor.name for flavor in self._scenario.flavors} - _FIRST_FLAVORS
        if there := sorted(flavors & _by_name(self._flavors()).keys()):
            run("flavor", "delete", *there)
        images = {image.name for image in self._scenario.images} - {tiny_image.NAME}
        if there := sorted(images & _by_name(self._images()).keys()):
            run("image", "delete", *there)
        for host in self._scenario.hosts:
            if host.disabled:
                run("compute", "service", "set", "--enable", host.name, "nova-compute")

    def _delete_servers(self, project: str) -> None:
        if not (servers := self._servers(project)):
            return
        self._seats[project].client.run("server", "delete", *(server["id"] for server in servers.values()))
        deadline = time.monotonic() + _SETTLE_S
        while self._servers(project):
            if time.monotonic() > deadline:
                raise Unavailable(f"some servers were not deleted within {_SETTLE_S:.0f} s")
            time.sleep(_POLL_S)


def _reasons(decision: Mapping[str, Any], all_of_them: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    for step in decision["steps"]:
        if step["removed"]:
            yield f"{step['rule']} removed {', '.join(map(host_text, step['removed']))}"
    if decision is not all_of_them[-1]:
        yield f"the build on {decision['chosen']} failed"
    elif decision["forced"] and decision["chosen"]:
        yield f"{decision['chosen']} was forced"
    elif decision["chosen"]:
        yield f"best of {hosts_text(decision['survivors'])}"


def _by_name(listed: Sequence[Any]) -> dict[str, Any]:
    return {each["name"]: each for each in listed}


def _properties(values: Mapping[str, str]) -> list[str]:
    return [word for key, value in values.items() for word in ("--property", f"{key}={value}")]
