# SPDX-License-Identifier: Apache-2.0
"""What an attack is, and the two ways in which most of them speak: whole requests in turn, or raw connections."""

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
    """``sent``: how many of what; ``wrong``: answers that nobody should get. ``slowest_s``: the longest answer."""

    sent: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0


@dataclass(frozen=True)
class Attack:
    """One attack and what others may notice of it.

    ``p50_ratio``: how much longer their median may be than in the quiet before and after. Attackers who keep the
    interpreter busy with requests of their own share it with everybody, a switch interval each.
    ``worst_ms``: the longest that one of their requests may take.
    ``own_s``: the longest that one of the attacker's own requests may take.
    ``memory_mib``: how much more memory each control process may need afterwards; ``disk_mib``: how much more its files
    may take.
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
    """One request of an attacker. ``good``: the statuses that it may get; empty: any below 500."""

    what: str
    method: str
    path: str
    body: bytes | None = None
    good: Sequence[int] = ()
    token: str | None = ATTACKER
    version: str = "compute 2.100"


def ask(what: str, method: str, path: str, body: Any = None, *good: int, **more: Any) -> Ask:
    """Return a request; a body that is no bytes is sent as JSON."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    return Ask(what, method, path, data, good, **more)


def in_turn(make: Callable[[int], Iterable[Ask]], *, clients: int = 4) -> Callable[[Target, float], Outcome]:
    """Return an attack of clients that send the requests again and again, each after the answer of its last one."""

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
