# SPDX-License-Identifier: Apache-2.0
"""Definition of an attack, and helpers for the two common kinds: sequences of requests and raw connections."""

import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from attack.target import ATTACKER, Target

_TIMEOUT_S = 60.0


@dataclass
class Outcome:
    """Result of an attack.

    ``sent``: counts by kind; ``wrong``: unacceptable responses; ``slowest_s``: longest response time.
    """

    sent: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0


@dataclass(frozen=True)
class Attack:
    """Attack and its permitted effects on other users.

    ``p50_ratio``: maximum median latency of other users, relative to the quiet time. Attackers that keep the
    interpreter busy share it with all users, one switch interval each. ``worst_ms``: maximum latency of other users'
    requests. ``own_s``: maximum latency of the attacker's requests. ``memory_mib``: maximum memory growth of each
    control process; ``disk_mib``: maximum growth of its files.
    """

    name: str
    run: Callable[[Target, float], Outcome]
    p50_ratio: float = 20.0
    worst_ms: float = 1500.0
    own_s: float = 10.0
    memory_mib: float = 300.0
    disk_mib: float = 200.0


@dataclass(frozen=True)
class Ask:
    """Request of an attacker. ``good``: acceptable statuses; empty accepts all below 500."""

    what: str
    method: str
    path: str
    body: bytes | None = None
    good: Sequence[int] = ()
    token: str | None = ATTACKER
    version: str = "compute 2.100"


def ask(what: str, method: str, path: str, body: Any = None, *good: int, **more: Any) -> Ask:
    """Return a request; a body other than bytes is sent as JSON."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    return Ask(what, method, path, data, good, **more)


def in_turn(make: Callable[[int], Iterable[Ask]], *, clients: int = 4) -> Callable[[Target, float], Outcome]:
    """Return an attack whose clients repeat the requests in sequence, each after the response of the last one."""

    def run(target: Target, seconds: float) -> Outcome:
        outcome, lock, until = Outcome(), threading.Lock(), time.monotonic() + seconds

        def client(number: int) -> None:
            connection = http.client.HTTPConnection(
                "127.0.0.1", target.ports[number % len(target.ports)], timeout=_TIMEOUT_S
            )
            requests = list(make(number))
            while True:
                random.Random(number).shuffle(requests)
                for each in requests:
                    if time.monotonic() > until:
                        connection.close()
                        return
                    began = time.monotonic()
                    said = _send(connection, each)
                    with lock:
                        outcome.sent[f"{each.what}: {said}" if len(said) < 40 else each.what] += 1
                        outcome.slowest_s = max(outcome.slowest_s, time.monotonic() - began)
                        if _is_wrong(each, said) and len(outcome.wrong) < 20:
                            outcome.wrong.append(f"{each.what}: {said}")

        threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return outcome

    return run


def _send(connection: http.client.HTTPConnection, each: Ask) -> str:
    headers = {"OpenStack-API-Version": each.version}
    if each.token is not None:
        headers["X-Auth-Token"] = each.token
    if each.body is not None:
        headers["Content-Type"] = "application/json"
    try:
        connection.request(each.method, each.path, each.body, headers)
        answer = connection.getresponse()
        answer.read()
    except BrokenPipeError:
        connection.close()
        return "refused while sending"
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        return f"no answer: {type(error).__name__}: {error}"
    if answer.getheader("Connection", "").lower() == "close":
        connection.close()
    return str(answer.status)


def _is_wrong(each: Ask, said: str) -> bool:
    if said == "refused while sending":
        return 413 not in each.good
    if not said.isdecimal():
        return True
    return int(said) not in each.good if each.good else int(said) >= 500 and int(said) not in {503, 504}
