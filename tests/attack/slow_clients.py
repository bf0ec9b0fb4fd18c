# SPDX-License-Identifier: Apache-2.0
"""Attacks by clients that occupy connections: slow senders, half-sent requests, idle, never reading, reconnecting."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Sequence

from attack.attack import Attack, Outcome
from attack.target import ATTACKER, Target

_MANY = 1000
_HEAD = b"POST /compute/v2.1/servers HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
_SLOW_BODY = _HEAD + b"X-Auth-Token: %b\r\nContent-Length: 1000\r\n\r\n{" % ATTACKER.encode()
_SLOW_CHUNKS = _HEAD + b"X-Auth-Token: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % ATTACKER.encode()
_LIST = b"GET /compute/v2.1/flavors HTTP/1.1\r\nHost: x\r\nX-Auth-Token: %b\r\n\r\n" % ATTACKER.encode()
_BIG = b"GET /placement/traits HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\r\n"

Client = Callable[[asyncio.StreamWriter, int, float], Awaitable[None]]


async def _body(writer: asyncio.StreamWriter, _number: int, until: float) -> None:
    await _drip(writer, _SLOW_BODY, b" ", until)


async def _chunks(writer: asyncio.StreamWriter, _number: int, until: float) -> None:
    await _drip(writer, _SLOW_CHUNKS, b"1\r\n \r\n", until)


async def _half_head(writer: asyncio.StreamWriter, _number: int, until: float) -> None:
    await _drip(writer, _HEAD + b"X-Half: ", b"x", until)


async def _idle(writer: asyncio.StreamWriter, number: int, until: float) -> None:
    writer.write(_LIST if number % 2 else b"")  # half of the clients first get one response
    await asyncio.sleep(until - time.monotonic())


async def _not_reading(writer: asyncio.StreamWriter, _number: int, until: float) -> None:
    writer.write(40 * _BIG)
    await asyncio.sleep(until - time.monotonic())


async def _brief(writer: asyncio.StreamWriter, _number: int, _until: float) -> None:
    writer.write(_HEAD)
    await asyncio.sleep(0.2)


async def _drip(writer: asyncio.StreamWriter, first: bytes, then: bytes, until: float) -> None:
    writer.write(first)
    while time.monotonic() < until:
        await asyncio.sleep(1)
        writer.write(then)
        await writer.drain()


def _crowd(*kinds: Client, each: int = _MANY) -> Callable[[Target, float], Outcome]:
    """Return an attack by ``each`` clients of each kind; a client that is disconnected reconnects at once."""

    def run(target: Target, seconds: float) -> Outcome:
        return asyncio.run(_run(target, kinds, each, seconds))

    return run


async def _run(target: Target, kinds: Sequence[Client], each: int, seconds: float) -> Outcome:
    outcome, until = Outcome(), time.monotonic() + seconds

    async def come_back(kind: Client, number: int) -> None:
        while time.monotonic() < until:
            try:
                await _visit(kind, number, target.ports[number % len(target.ports)], until)
                outcome.sent[kind.__name__.strip("_")] += 1
            except TimeoutError:
                outcome.sent["no connection within 10 s"] += 1
            except OSError:
                await asyncio.sleep(0.05)

    await asyncio.gather(*(come_back(kind, number) for kind in kinds for number in range(each)))
    return outcome


async def _visit(kind: Client, number: int, port: int, until: float) -> None:
    """Connect and stay until the attack ends, the client is done, or the server closes the connection."""
    reads = kind is not _not_reading
    with socket.socket() as connection:
        if not reads:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        await asyncio.wait_for(asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port)), 10)
        reader, writer = await asyncio.open_connection(sock=connection, limit=2**16)
        tasks = [asyncio.create_task(kind(writer, number, until))]
        if reads:
            tasks.append(asyncio.create_task(_until_closed(reader)))
        await asyncio.wait(tasks, return_when="FIRST_COMPLETED")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.close()


async def _until_closed(reader: asyncio.StreamReader) -> None:
    while await reader.read(2**16):
        pass


ATTACKS = (
    Attack("slow bodies", _crowd(_body, _chunks, each=_MANY // 2), p50_ratio=1.2),
    Attack("half-sent heads", _crowd(_half_head), p50_ratio=1.2),
    Attack("idle connections", _crowd(_idle), p50_ratio=1.2),
    Attack("slow, half-sent and idle together", _crowd(_body, _half_head, _idle), p50_ratio=1.3),
    Attack("clients that do not read", _crowd(_not_reading, each=200), p50_ratio=3.0),
    Attack("connections that come and go", _crowd(_brief, each=200), p50_ratio=4.0),
)
