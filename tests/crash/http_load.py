# SPDX-License-Identifier: Apache-2.0
"""Clients of a real cloud that send random requests over HTTP, valid or not, and record the accepted ones.

Accepted requests must hold after any fault: a created server exists until a delete is requested, and is gone once the
delete was accepted.
"""

import http.client
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.control import IMAGE

#: Sends a request below the compute API. Returns the status and the decoded body. Raises: OSError, HTTPException.
Call = Callable[[str, str, Any], tuple[int, Any]]

ACTIONS: tuple[dict[str, Any], ...] = (
    {"os-stop": None},
    {"os-start": None},
    {"reboot": {"type": "HARD"}},
    {"reboot": {"type": "SOFT"}},
    {"pause": None},
    {"unpause": None},
    {"suspend": None},
    {"resume": None},
    {"rescue": None},
    {"unrescue": None},
    {"changePassword": {"adminPass": "another"}},
    {"trigger_crash_dump": None},
    {"resize": {"flavorRef": "2"}},
    {"resize": {"flavorRef": "1"}},
    {"migrate": None},
    {"os-migrateLive": {"host": None, "block_migration": "auto"}},
    {"os-migrateLive": {"host": None, "block_migration": "auto"}},
    {"rebuild": {"imageRef": IMAGE}},
)
#: Actions of a cloud with an image service.
IMAGE_ACTIONS: tuple[dict[str, Any], ...] = (
    {"createImage": {"name": "copy"}},
    {"createBackup": {"name": "daily", "backup_type": "daily", "rotation": 1}},
    {"shelve": None},
    {"shelve": None},
    {"shelveOffload": None},
    {"rescue": {"rescue_image_ref": IMAGE}},
)
_ENDS: tuple[dict[str, Any], ...] = ({"confirmResize": None}, {"revertResize": None})


@dataclass(frozen=True)
class Networks:
    """Networks of a cloud with a network service. ``ports``: of the user, on any of them."""

    ids: tuple[str, ...]
    ports: tuple[str, ...]


@dataclass
class Promised:
    """Accepted creates and deletes, by server uuid."""

    made: set[str] = field(default_factory=set)
    asked_gone: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def check(self, present: set[str]) -> None:
        """Compare with the existing servers.

        Raises: AssertionError if an undeleted server is gone or a deleted one exists.
        """
        missing, back = self.made - self.asked_gone - present, self.gone & present
        assert not missing, f"created servers are gone without a delete: {sorted(missing)}"
        assert not back, f"deleted servers still exist: {sorted(back)}"


class HttpLoad:
    """Client threads that send requests until they are stopped.

    ``groups``: uuids of server groups for new servers. ``servers``: target number of servers. ``pause_s``: maximum
    pause of a thread between two requests, in seconds. ``batch``: servers of occasional large requests, which are split
    into chunks. ``promised``: records of earlier clients to continue. ``keeps_deleted``: the cloud uses soft delete.
    ``rack``: id of an aggregate that is asked to cache images, in a cloud with an image service. ``networks``: those of
    servers, in a cloud with a network service.
    """

    def __init__(
        self,
        call: Call,
        seed: str,
        *,
        clients: int = 3,
        servers: int = 12,
        flavors: Sequence[str] = ("1",),
        groups: Sequence[str] = (),
        most_together: int = 1,
        batch: int = 0,
        pause_s: float = 0.0,
        promised: Promised | None = None,
        keeps_deleted: bool = False,
        rack: int | None = None,
        networks: Networks | None = None,
    ) -> None:
        self._call = call
        self._seed = seed
        self._servers = servers
        self._flavors = tuple(flavors)
        self._groups = tuple(groups)
        self._most_together = most_together
        self._batch = batch
        self._pause_s = pause_s
        self._keeps_deleted = keeps_deleted
        self._rack = rack
        self._networks = networks
        self._actions = ACTIONS + (IMAGE_ACTIONS if rack is not None else ())
        acts = _ACTS | (_IMAGE_ACTS if rack is not None else {}) | (_NETWORK_ACTS if networks is not None else {})
        self._acts, self._weights = tuple(acts), tuple(acts.values())
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(clients)]
        self.promised = promised or Promised()
        #: Number of accepted requests of each kind.
        self.taken: dict[str, int] = {}

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        rng = random.Random(f"{self._seed}-{number}")
        while not self._stopped.is_set():
            try:
                self._ask(rng)
            except (OSError, http.client.HTTPException):
                self._stopped.wait(0.05)
            if self._pause_s:
                self._stopped.wait(rng.uniform(0.0, self._pause_s))

    def _ask(self, rng: random.Random) -> None:
        promised = self.promised
        known = sorted(promised.made - promised.asked_gone)
        if len(known) < rng.randrange(1, self._servers):
            self._boot(rng, rng.randint(1, self._most_together))
        else:
            rng.choices(self._acts, self._weights)[0](self, rng, rng.choice(known))

    def _end(self, rng: random.Random, uuid: str) -> None:
        self.promised.asked_gone.add(uuid)
        if self._delete(uuid, for_good=rng.random() < 0.5):
            self.promised.gone.add(uuid)

    def _restore(self, rng: random.Random, _uuid: str) -> None:
        if hidden := sorted(self.promised.asked_gone - self.promised.gone):
            self._act(rng.choice(hidden), {"restore": None})

    def _end_resize(self, rng: random.Random, uuid: str) -> None:
        self._act(rng.choice(self._with_status("VERIFY_RESIZE") or [uuid]), rng.choice(_ENDS))

    def _abort(self, _rng: random.Random, uuid: str) -> None:
        _, body = self._call("GET", f"/servers/{uuid}/migrations", None)
        for migration in (body or {}).get("migrations", ()):
            self._take("abort", "DELETE", f"/servers/{uuid}/migrations/{migration['id']}")

    def _any(self, rng: random.Random, uuid: str) -> None:
        self._act(uuid, rng.choice(self._actions))

    def _ask_for_many(self, rng: random.Random, _uuid: str) -> None:
        if self._batch:
            self._boot(rng, self._batch)

    def _evacuate(self, _rng: random.Random, uuid: str) -> None:
        """Declare the host of a server down, even if its agent runs, and evacuate the server."""
        _, body = self._call("GET", f"/servers/{uuid}", None)
        host = (body or {}).get("server", {}).get("OS-EXT-SRV-ATTR:host")
        for service in self._services() or () if host else ():
            if service["host"] == host:
                self._declare(service, down=True)
                self._act(uuid, {"evacuate": {}})

    def _declare_up(self, rng: random.Random, _uuid: str) -> None:
        if down := [each for each in self._services() or () if each["forced_down"]]:
            self._declare(rng.choice(down), down=False)

    def declare_all_up(self) -> bool:
        """Clear forced_down on all hosts; return whether that worked.

        Hosts with guests of evacuated servers refuse it.
        """
        services = self._services()
        return services is not None and all(
            not each["forced_down"] or self._declare(each, down=False) for each in services
        )

    def _services(self) -> list[dict[str, Any]] | None:
        status, body = self._call("GET", "/os-services?binary=nova-compute", None)
        return list(body["services"]) if status == 200 else None

    def _declare(self, service: Mapping[str, Any], *, down: bool) -> bool:
        kind, path = "down" if down else "up", f"/os-services/{service['id']}"
        return self._take(kind, "PUT", path, {"forced_down": down}) == 200

    def _unshelve(self, rng: random.Random, uuid: str) -> None:
        shelved = self._with_status("SHELVED_OFFLOADED") + self._with_status("SHELVED")
        self._act(rng.choice(shelved or [uuid]), {"unshelve": None})

    def _cache(self, _rng: random.Random, _uuid: str) -> None:
        self._take("cache", "POST", f"/os-aggregates/{self._rack}/images", {"cache": [{"id": IMAGE}]})

    def _with_status(self, status: str) -> list[str]:
        _, body = self._call("GET", f"/servers?all_tenants=1&status={status}", None)
        return [each["id"] for each in (body or {}).get("servers", ())]

    def _boot(self, rng: random.Random, count: int) -> None:
        flavor = rng.choice(self._flavors)
        server = {"name": "vm", "imageRef": IMAGE, "flavorRef": flavor, "networks": self._networks_of(rng, count)}
        body: dict[str, Any] = {"server": server}
        if count > 1:
            server |= {"min_count": count, "max_count": count, "return_reservation_id": True}
        if self._groups and rng.random() < 0.5:
            body["os:scheduler_hints"] = {"group": rng.choice(self._groups)}
        status, answer = self._call("POST", "/servers", body)
        if status == 202 and count == 1:
            self._count("boot")
            self.promised.made.add(answer["server"]["id"])
        elif status == 202:
            self._count("batch")
            _, found = self._call("GET", f"/servers?all_tenants=1&reservation_id={answer['reservation_id']}", None)
            self.promised.made.update(each["id"] for each in (found or {}).get("servers", ()))

    def _networks_of(self, rng: random.Random, count: int) -> Any:
        """Return the networks of a request for new servers: none, a network, or also a port of the user."""
        chance = rng.random()
        if self._networks is None:
            return "auto"
        if chance < 0.2:
            return "none"
        ports = [{"port": rng.choice(self._networks.ports)}] if chance > 0.6 and count == 1 else []
        return [{"uuid": rng.choice(self._networks.ids)}, *ports]

    def _attach(self, rng: random.Random, uuid: str) -> None:
        assert self._networks is not None
        of_user = {"port_id": rng.choice(self._networks.ports)}
        wanted = rng.choice([{"net_id": rng.choice(self._networks.ids)}, of_user])
        self._take("attach", "POST", f"/servers/{uuid}/os-interface", {"interfaceAttachment": wanted})

    def _detach(self, rng: random.Random, uuid: str) -> None:
        _, body = self._call("GET", f"/servers/{uuid}/os-interface", None)
        if attached := [each["port_id"] for each in (body or {}).get("interfaceAttachments", ())]:
            self._take("detach", "DELETE", f"/servers/{uuid}/os-interface/{rng.choice(attached)}")

    def _delete(self, uuid: str, *, for_good: bool) -> bool:
        """Delete a server. Returns whether the API accepted a permanent delete."""
        if for_good:
            return self._take("forceDelete", "POST", f"/servers/{uuid}/action", {"forceDelete": None}) == 202
        return self._take("delete", "DELETE", f"/servers/{uuid}") == 204 and not self._keeps_deleted

    def _act(self, uuid: str, action: Mapping[str, Any]) -> None:
        self._take(next(iter(action)), "POST", f"/servers/{uuid}/action", action)

    def _take(self, kind: str, method: str, path: str, body: Any = None) -> int:
        status, _ = self._call(method, path, body)
        if status < 300:
            self._count(kind)
        return status

    def _count(self, kind: str) -> None:
        self.taken[kind] = self.taken.get(kind, 0) + 1


Act = Callable[[HttpLoad, random.Random, str], None]
#: Relative frequency of each request.
_ACTS: Mapping[Act, int] = {
    HttpLoad._end: 200,
    HttpLoad._restore: 60,
    HttpLoad._end_resize: 400,
    HttpLoad._abort: 100,
    HttpLoad._evacuate: 60,
    HttpLoad._declare_up: 120,
    HttpLoad._ask_for_many: 1,
    HttpLoad._any: 1200,
}
_IMAGE_ACTS: Mapping[Act, int] = {HttpLoad._unshelve: 160, HttpLoad._cache: 12}
_NETWORK_ACTS: Mapping[Act, int] = {HttpLoad._attach: 200, HttpLoad._detach: 160}
