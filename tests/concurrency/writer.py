# SPDX-License-Identifier: Apache-2.0
"""One control process of the soak test and its clients: random claims, moves and releases with checked results.

It reads one line from standard input before it starts and one before it ends, and writes its results as JSON.

python -m concurrency.writer CONFIG SEED OPERATIONS CLIENTS RESULT
"""

import json
import random
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kilonova.cli.wiring.control import image_id, start_control_process
from kilonova.config.load import load_settings
from kilonova.logs import setup
from support.api_client import send

PROVIDERS = tuple(str(uuid.uuid5(uuid.NAMESPACE_DNS, f"provider-{n}")) for n in range(12))
#: Consumers that all clients of all processes write.
SHARED = tuple(str(uuid.uuid5(uuid.NAMESPACE_DNS, f"consumer-{n}")) for n in range(8))
OWN_CONSUMERS = 6
#: One client in this many boots and deletes servers; the others write allocations.
SERVERS_EVERY = 8
_SHORTAGE = "would exceed the capacity"
_GENERATION = "placement.concurrent_update"

Allocations = dict[str, dict[str, int]]


@dataclass
class Outcome:
    """Results. ``wrong``: unexpected responses. ``own``: consumer → its allocations at the end."""

    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    own: dict[str, Allocations] = field(default_factory=dict)
    taken_s: list[float] = field(default_factory=list)
    elapsed_s: float = 0.0


class Client:
    """Client thread that sends requests to the WSGI application of its process."""

    def __init__(self, app: Any, seed: str, outcome: Outcome) -> None:
        self._app = app
        self._random = random.Random(seed)
        self._outcome = outcome
        self._generations: dict[str, int] = {}
        self._mine = [str(uuid.UUID(int=self._random.getrandbits(128), version=4)) for _ in range(OWN_CONSUMERS)]

    # --- allocations --------------------------------------------------------------------------------------------------

    def write_allocations(self) -> None:
        """Run one random operation on allocations and check the response."""
        draw = self._random.random()
        if draw < 0.15:
            self._write_shared()
        elif draw < 0.30:
            self._write_two()
        elif draw < 0.40:
            self._delete()
        else:
            self._put()

    def _put(self) -> None:
        consumer = self._random.choice(self._mine)
        wanted = self._wish()
        status, answer = self._send("PUT", f"/placement/allocations/{consumer}", self._body(consumer, wanted))
        kind = "claim" if not self._outcome.own.get(consumer) else "move" if wanted else "release"
        self._settle(kind, status, answer, {consumer: wanted})

    def _write_two(self) -> None:
        first, second = self._random.sample(self._mine, 2)
        has_first, has_second = self._outcome.own.get(first), self._outcome.own.get(second)
        if has_first and has_second and self._random.random() < 0.5:
            wanted = {first: has_second, second: has_first}  # an exchange of allocations always fits
        else:
            wanted = {first: self._wish(), second: self._wish()}
        bodies = {consumer: self._body(consumer, wish) for consumer, wish in wanted.items()}
        status, answer = self._send("POST", "/placement/allocations", bodies)
        self._settle("two at once", status, answer, wanted)

    def _delete(self) -> None:
        consumer = self._random.choice(self._mine)
        present = bool(self._outcome.own.get(consumer))
        status, answer = self._send("DELETE", f"/placement/allocations/{consumer}")
        if status == 404 and not present:
            self._outcome.done["delete of nothing"] += 1
            return
        self._settle("release", status, answer, {consumer: {}})

    def _write_shared(self) -> None:
        consumer = self._random.choice(SHARED)
        status, answer = self._send("GET", f"/placement/allocations/{consumer}")
        if status != 200:
            self._outcome.wrong.append(f"GET: {status} {answer}")
            return
        generation = answer.get("consumer_generation")
        body = {**self._body(consumer, self._wish()), "consumer_generation": generation}
        status, answer = self._send("PUT", f"/placement/allocations/{consumer}", body)
        self._settle("shared", status, answer, {}, generations=True)

    def _settle(
        self, kind: str, status: int, answer: Any, wanted: dict[str, Allocations], *, generations: bool = False
    ) -> None:
        if status == 204:
            self._outcome.done[kind] += 1
            for consumer, wish in wanted.items():
                self._outcome.own[consumer] = wish
                if wish:
                    self._generations[consumer] = self._generations.get(consumer, 0) + 1
                else:
                    self._generations.pop(consumer, None)
            return
        error = answer["errors"][0] if status == 409 else {}
        if _SHORTAGE in error.get("detail", ""):
            self._outcome.done["shortage"] += 1
        elif generations and error.get("code") == _GENERATION:
            self._outcome.done["generation conflict"] += 1
        else:
            self._outcome.wrong.append(f"{kind}: {status} {answer}")

    def _wish(self) -> Allocations:
        if self._random.random() < 0.25:
            return {}
        chosen = self._random.sample(PROVIDERS, self._random.choice((1, 1, 1, 2)))
        return {
            provider: {"VCPU": self._random.randint(1, 8), "MEMORY_MB": 64 * self._random.randint(1, 16)}
            for provider in chosen
        }

    def _body(self, consumer: str, wish: Allocations) -> dict[str, Any]:
        return {
            "allocations": {provider: {"resources": resources} for provider, resources in wish.items()},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": self._generations.get(consumer),
        }

    # --- servers ------------------------------------------------------------------------------------------------------

    def boot_and_delete(self) -> None:
        """Boot a server and delete it. A build that fails for lack of a host must be a real shortage."""
        body = {"name": "soak", "flavorRef": "soak", "imageRef": image_id("tiny"), "networks": "none"}
        status, answer = self._send("POST", "/compute/v2.1/servers", {"server": body})
        if status != 202:
            self._outcome.wrong.append(f"POST /servers: {status} {answer}")
            return
        path = f"/compute/v2.1/servers/{answer['server']['id']}"
        shown = self._wait(path, lambda status, answer: status != 200 or answer["server"]["status"] != "BUILD")
        if shown.get("server", {"status": "ERROR"})["status"] == "ERROR":  # no server: an error, or the end of the wait
            if "No valid host" not in str(shown):
                self._outcome.wrong.append(f"boot: {shown}")
            self._outcome.done["boot without a host"] += 1
        else:
            self._outcome.done["boot"] += 1
        status, answer = self._send("DELETE", path)
        if status != 204:
            self._outcome.wrong.append(f"DELETE /servers: {status} {answer}")
        if self._wait(path, lambda status, _: status == 404, gone=True) is not None:
            self._outcome.wrong.append(f"{path} is not deleted")
        self._outcome.done["delete of a server"] += 1

    def _wait(self, path: str, is_done: Callable[[int, Any], bool], *, gone: bool = False) -> Any:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            status, answer = self._send("GET", path, timed=False)
            if is_done(status, answer):
                return None if gone else answer
            time.sleep(0.05)
        return {"timed out": path}

    def _send(self, method: str, path: str, body: Any = None, *, timed: bool = True) -> tuple[int, Any]:
        raw = b"" if body is None else json.dumps(body).encode()
        headers = {
            "X-Auth-Token": "admin",
            "OpenStack-API-Version": "compute 2.90" if path.startswith("/compute") else "placement 1.36",
            **({"Content-Type": "application/json", "Content-Length": str(len(raw))} if raw else {}),
        }
        start = time.perf_counter()
        answer = send(self._app, method, path, raw, headers)
        if timed:
            self._outcome.taken_s.append(time.perf_counter() - start)
        return answer.status, answer.body


def run(app: Any, seed: str, operations: int, clients: int) -> Outcome:
    """Share ``operations`` among ``clients`` threads."""
    left = iter(range(operations))
    lock = threading.Lock()
    outcomes = [Outcome() for _ in range(clients)]

    def work(number: int) -> None:
        client = Client(app, f"{seed}-{number}", outcomes[number])
        operate = client.boot_and_delete if number % SERVERS_EVERY == SERVERS_EVERY - 1 else client.write_allocations
        while True:
            with lock:
                if next(left, None) is None:
                    return
            try:
                operate()
            except Exception as error:  # noqa: BLE001 - any error fails the soak test and is reported
                outcomes[number].wrong.append(repr(error))
                return

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = Outcome(elapsed_s=time.perf_counter() - start)
    for outcome in outcomes:
        total.done += outcome.done
        total.wrong += outcome.wrong
        total.own |= outcome.own
        total.taken_s += outcome.taken_s
    return total


def main(arguments: list[str]) -> None:
    file, seed, operations, clients, result = arguments
    setup.configure()
    control = start_control_process(load_settings([file]))
    print("ready", flush=True)
    sys.stdin.readline()
    outcome = run(control.application, seed, int(operations), int(clients))
    Path(result).write_text(json.dumps(vars(outcome)))
    print("done", flush=True)
    sys.stdin.readline()  # other processes may still use the hosts of this one
    control.close()


if __name__ == "__main__":
    main(sys.argv[1:])
