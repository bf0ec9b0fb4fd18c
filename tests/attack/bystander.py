# SPDX-License-Identifier: Apache-2.0
"""Bystander: another user of the cloud, in a process of its own, that measures everyday requests during an attack.

python -m attack.bystander TARGET SECONDS: prints the latencies of each kind of request as JSON.
"""

import http.client
import itertools
import json
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from attack.target import ADMIN, BYSTANDER, IMAGE, TINY, Target

_TIMEOUT_S = 20.0
_PAUSE_S = 0.005


@dataclass(frozen=True)
class Latency:
    """Latencies of one bystander's requests, in milliseconds; ``failures``: requests without a good response."""

    count: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    failures: Sequence[str]


class _Caller:
    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self._kept: http.client.HTTPConnection | None = None

    def call(self, method: str, path: str, body: Any = None, *, new_connection: bool = False) -> tuple[int, Any]:
        if new_connection or self._kept is None:
            self.close()
            self._kept = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_TIMEOUT_S)
        headers = {"X-Auth-Token": self._token, "OpenStack-API-Version": _version(path)}
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body), "application/json"
        try:
            self._kept.request(method, path, data, headers)
            answer = self._kept.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None


def _version(path: str) -> str:
    return "placement 1.39" if path.startswith("/placement") else "compute 2.100"


def live(target: Target, seconds: float) -> Latency:
    """Send everyday requests for ``seconds``, on persistent and on new connections."""
    user, admin = _Caller(target.port, BYSTANDER), _Caller(target.ports[-1], ADMIN)
    times: list[float] = []
    failures: list[str] = []

    def timed(name: str, ask: Callable[[], tuple[int, Any]], *good: int) -> Any:
        began = time.perf_counter()
        try:
            status, body = ask()
        except (OSError, http.client.HTTPException, ValueError) as error:
            failures.append(f"{name}: {type(error).__name__}: {error}")
            times.append((time.perf_counter() - began) * 1e3)
            return None
        times.append((time.perf_counter() - began) * 1e3)
        if status not in good:
            failures.append(f"{name}: {status} {json.dumps(body)[:200]}")
        return body

    consumer = str(uuid.uuid4())
    server = {"name": "bystander", "imageRef": IMAGE, "flavorRef": TINY, "networks": "none"}
    until = time.monotonic() + seconds
    for turn in itertools.count():
        if time.monotonic() > until:
            break
        fresh = turn % 4 == 3
        timed("list servers", lambda: user.call("GET", "/compute/v2.1/servers/detail", new_connection=fresh), 200)  # noqa: B023
        timed("list flavors", lambda: user.call("GET", "/compute/v2.1/flavors"), 200)
        timed("candidates", lambda: admin.call("GET", "/placement/allocation_candidates?resources=VCPU:1&limit=1"), 200)
        name = f"/placement/traits/CUSTOM_{consumer[:8].upper()}_{turn}"
        timed("put trait", lambda: admin.call("PUT", name), 201)  # noqa: B023
        timed("delete trait", lambda: admin.call("DELETE", name), 204)  # noqa: B023
        if turn % 8 == 0:
            made = timed("create", lambda: user.call("POST", "/compute/v2.1/servers", {"server": server}), 202)
            if made is not None and "server" in made:
                path = f"/compute/v2.1/servers/{made['server']['id']}"
                timed("delete", lambda: user.call("DELETE", path), 204)  # noqa: B023
        time.sleep(_PAUSE_S)
    user.close()
    admin.close()
    times.sort()
    return Latency(len(times), statistics.median(times), times[int(len(times) * 0.99)], times[-1], failures[:20])


class Bystander:
    """Bystander that runs in a process of its own for a fixed time."""

    def __init__(self, target: Target, seconds: float) -> None:
        command = [sys.executable, "-m", "attack.bystander", target.as_json(), str(seconds)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def latency(self) -> Latency:
        printed, _ = self._process.communicate()
        return Latency(**json.loads(printed))


if __name__ == "__main__":
    print(json.dumps(live(Target.from_json(sys.argv[1]), float(sys.argv[2])).__dict__))
