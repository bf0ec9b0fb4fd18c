# SPDX-License-Identifier: Apache-2.0
"""Effect of slow clients on the latency of a normal client.

The attacks are: bodies of one byte per second, partial heads, idle connections, and all of these together. Each attack
lasts ``--seconds``; an attacker whose connection the server closes reconnects at once. The latency is measured before,
during and after each attack, on the same server. At the end of an attack, all attackers disconnect at once.

    python -m benchmarks slow_clients [-- [--clients N] [--seconds S] [--other DIR]]
"""

import argparse
import contextlib
import os
import resource
import selectors
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks._placement_data import claims, flat_hosts
from benchmarks._placement_servers import Target, ours

HOSTS = 5_000
_HEAD = b"PUT /placement/allocations/x HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n"
ATTACKS = {
    "slow bodies": _HEAD + b"Content-Type: application/json\r\nContent-Length: 90000\r\n\r\n",
    "half heads": _HEAD + b"X-More: ",
    "idle": b"",
}


@contextmanager
def attack(target: Target, kinds: list[str], clients: int) -> Iterator[None]:
    """Keep ``clients`` slow connections of each kind open."""
    over = threading.Event()
    thread = threading.Thread(target=_attack, args=(target, kinds, clients, over))
    thread.start()
    try:
        time.sleep(2.0)
        yield
    finally:
        over.set()
        thread.join()


def _attack(target: Target, kinds: list[str], clients: int, over: threading.Event) -> None:
    chosen = selectors.DefaultSelector()

    def come(kind: str) -> None:
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(("127.0.0.1", target.port))
        chosen.register(sock, selectors.EVENT_READ, (kind, [False]))

    for kind in kinds:
        for _ in range(clients):
            come(kind)
    while not over.is_set():
        began = time.monotonic()
        for key in list(chosen.get_map().values()):
            kind, started = key.data
            with contextlib.suppress(OSError):
                sent = ATTACKS[kind] if not started[0] else b"a" if ATTACKS[kind] else b""
                key.fileobj.send(sent)  # type: ignore[union-attr]
                started[0] = True
        while (left := began + 1.0 - time.monotonic()) > 0 and not over.is_set():
            for key, _ in chosen.select(left):
                chosen.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]
                come(key.data[0])
    for key in list(chosen.get_map().values()):
        key.fileobj.close()  # type: ignore[union-attr]


def latency(target: Target, seconds: float) -> tuple[float, float]:
    """Return median and 99th percentile of a PUT. Units: milliseconds. Raises: TimeoutError."""
    bodies = claims(flat_hosts(HOSTS), seed=time.monotonic_ns())
    taken, end = [], time.monotonic() + seconds
    connection = target.connect(timeout_s=5.0)
    while time.monotonic() < end:
        consumer, body = next(bodies)
        taken.append(connection.ask(target.request("PUT", f"/allocations/{consumer}", body), 204)[0] * 1e3)
    connection.close()
    taken.sort()
    return statistics.median(taken), taken[int(len(taken) * 0.99)]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks slow_clients --", description=__doc__)
    parser.add_argument("--clients", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--other", type=Path, help="root of another checkout to measure instead")
    options = parser.parse_args(arguments)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; shared by server and clients")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kilonova-bench-")))
        checkout = options.other.resolve() if options.other else None
        target = stack.enter_context(ours("kilonova", folder / "it", None, flat_hosts(HOSTS), checkout=checkout))
        for kinds in (*([kind] for kind in ATTACKS), list(ATTACKS)):
            before = latency(target, 3.0)
            name = kinds[0] if len(kinds) == 1 else "all"
            try:
                with attack(target, kinds, options.clients):
                    during = latency(target, options.seconds)
                after = latency(target, 3.0)
            except OSError as error:
                print(f"  {name:<12} before {before[0]:6.2f} ms   during: no reply ({error})", flush=True)
                continue
            quiet = (before[0] + after[0]) / 2
            print(
                f"  {name:<12} p50 (p99) before {before[0]:6.2f} ({before[1]:7.2f}) ms  during {during[0]:6.2f} "
                f"({during[1]:7.2f})  after {after[0]:6.2f} ({after[1]:7.2f})  p50 x {during[0] / quiet:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
