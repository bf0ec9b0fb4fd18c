# SPDX-License-Identifier: Apache-2.0
"""Clients of a real cloud that ask for something at random over HTTP, whether it is there or not, and note what comes.

What the cloud has promised to them has to hold after any fault: a server that was taken is there until somebody asks
for its end, and is gone once that was taken.
"""

import http.client
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kilonova.cli.control import image_id

#: Asks for a path below the compute API. Returns the status and the decoded body. Raises: OSError, HTTPException.
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
)
_ENDS: tuple[dict[str, Any], ...] = ({"confirmResize": None}, {"revertResize": None})


@dataclass
class Promised:
    """What clients were told, by the uuids of servers."""

    made: set[str] = field(default_factory=set)
    asked_gone: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def check(self, present: set[str]) -> None:
        """Raises: AssertionError when a server is gone that nobody deleted, or there although its delete was taken."""
        missing, back = self.made - self.asked_gone - present, self.gone & present
        assert not missing, f"servers that clients were promised are gone: {sorted(missing)}"
        assert not back, f"servers whose delete was taken are there: {sorted(back)}"


class HttpLoad:
    """Threads that ask until they are stopped. ``groups``: uuids of server groups that new servers may be of.

    ``servers``: so many they want to have. ``pause_s``: how long each rests, at most, between two requests.
    ``promised``: of earlier clients, which these go on from. ``keeps_deleted``: the cloud keeps what is deleted.
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
        pause_s: float = 0.0,
        promised: Promised | None = None,
        keeps_deleted: bool = False,
    ) -> None:
        self._call = call
        self._seed = seed
        self._servers = servers
        self._flavors = tuple(flavors)
        self._groups = tuple(groups)
        self._most_together = most_together
        self._pause_s = pause_s
        self._keeps_deleted = keeps_deleted
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(clients)]
        self.promised = promised or Promised()
        #: How often each kind of request was taken.
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
            self._boot(rng)
            return
        uuid, draw = rng.choice(known), rng.random()
        if draw < 0.1:
            promised.asked_gone.add(uuid)
            if self._delete(uuid, for_good=rng.random() < 0.5):
                promised.gone.add(uuid)
        elif draw < 0.13 and (hidden := sorted(promised.asked_gone - promised.gone)):
            self._act(rng.choice(hidden), {"restore": None})
        elif draw < 0.35:
            _, body = self._call("GET", "/servers?all_tenants=1&status=VERIFY_RESIZE", None)
            resized = [each["id"] for each in (body or {}).get("servers", ())] or [uuid]
            self._act(rng.choice(resized), rng.choice(_ENDS))
        elif draw < 0.4:
            _, body = self._call("GET", f"/servers/{uuid}/migrations", None)
            for migration in (body or {}).get("migrations", ()):
                self._take("abort", "DELETE", f"/servers/{uuid}/migrations/{migration['id']}")
        else:
            self._act(uuid, rng.choice(ACTIONS))

    def _boot(self, rng: random.Random) -> None:
        count = rng.randint(1, self._most_together)
        flavor = rng.choice(self._flavors)
        server = {"name": "vm", "imageRef": image_id("cirros"), "flavorRef": flavor, "networks": "auto"}
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

    def _delete(self, uuid: str, *, for_good: bool) -> bool:
        """Delete a server. Tells whether it was promised to be gone for good."""
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
