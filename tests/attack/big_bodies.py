# SPDX-License-Identifier: Apache-2.0
"""Attacks with bodies that are too large, too deep or malformed, with and without a token."""

import socket
import time
from collections.abc import Callable, Sequence

from attack.attack import Ask, Attack, Outcome, ask, in_turn
from attack.target import ADMIN, ATTACKER, Target

_PIECE = b" " * 65536
_SERVERS, _RESHAPER = "/compute/v2.1/servers", "/placement/reshaper"
_WHAT_IF = "/operator/v1/explain"
_MIB = 2**20


def _huge(
    path: str, token: str | None, size: int, *good: int, chunked: bool = False
) -> Callable[[Target, float], Outcome]:
    """Return an attack that sends a body of ``size`` bytes and ignores early responses."""

    def run(target: Target, seconds: float) -> Outcome:
        outcome, until = Outcome(), time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.monotonic()
            said = _send(target.port, path, token, size, chunked=chunked)
            outcome.slowest_s = max(outcome.slowest_s, time.monotonic() - began)
            outcome.sent[said] += 1
            if said not in {*map(str, good), "reset"}:
                outcome.wrong.append(f"{size} bytes to {path}: {said}")
        if "reset" in outcome.sent and len(outcome.sent) == 1:
            outcome.wrong.append("no error response: the connection was always reset")
        return outcome

    return run


def _send(port: int, path: str, token: str | None, size: int, *, chunked: bool) -> str:
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    identity = f"X-Auth-Token: {token}\r\n" if token else ""
    version = "OpenStack-API-Version: placement 1.39\r\n"
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{identity}{version}Content-Type: application/json\r\n{length}\r\n\r\n"
    piece = b"10000\r\n%b\r\n" % _PIECE if chunked else _PIECE
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        try:
            connection.sendall(head.encode())
            sent, answer = 0, b""
            while sent < size and not answer:
                try:
                    connection.setblocking(True)
                    connection.settimeout(20)
                    connection.sendall(piece)
                    sent += len(_PIECE)
                    connection.setblocking(False)
                    answer = connection.recv(4096)
                except BlockingIOError:
                    continue
            connection.settimeout(20)
            answer = answer or connection.recv(4096)
        except TimeoutError:
            return "no response within 20 s"
        except OSError:
            return "reset"
    return answer[9:12].decode("latin-1") if answer else "closed without a response"


def _together(*attacks: Callable[[Target, float], Outcome]) -> Callable[[Target, float], Outcome]:
    def run(target: Target, seconds: float) -> Outcome:
        whole = Outcome()
        for attack in attacks:
            part = attack(target, seconds / len(attacks))
            whole.sent += part.sent
            whole.wrong += part.wrong
            whole.slowest_s = max(whole.slowest_s, part.slowest_s)
        return whole

    return run


def _json(text: bytes, what: str, path: str = _SERVERS, token: str = ATTACKER) -> Ask:
    version = "placement 1.39" if path.startswith("/placement") else "compute 2.100"
    return ask(what, "POST", path, text, 400, 413, 403, token=token, version=version)


def _odd(_number: int) -> Sequence[Ask]:
    deep = 50_000
    return (
        _json(b"[" * deep + b"]" * deep, "deep lists"),
        _json(b'{"a":' * deep + b"1" + b"}" * deep, "deep objects"),
        _json(b'{"server":{"name":' + b"9" * 110_000 + b"}}", "a long number"),
        _json(b'{"server":{"name":1e' + b"9" * 100 + b"}}", "a huge exponent"),
        _json(b"{" + b",".join(b'"k%d":1' % n for n in range(9_000)) + b"}", "many keys"),
        _json(b'{"server":{"metadata":{' + b",".join(b'"k%d":"v"' % n for n in range(8_000)) + b"}}}", "much metadata"),
        _json(b"[" + b"1," * 3_000_000 + b"1]", "a long list", _RESHAPER, ADMIN),
        _json(
            b'{"inventories":{' + b",".join(b'"%d":{}' % n for n in range(500_000)) + b"}}", "many", _RESHAPER, ADMIN
        ),
        _json(b"[" * 500_000 + b"]" * 500_000, "deep lists in Placement", _RESHAPER, ADMIN),
        _json(b'{"flavor":' + b"[" * 400_000 + b"]" * 400_000 + b"}", "a deep what-if", _WHAT_IF, ADMIN),
    )


ATTACKS = (
    Attack(
        "huge bodies with a token",
        _together(
            _huge(_SERVERS, ATTACKER, 200 * _MIB, 413),
            _huge(_SERVERS, ATTACKER, 200 * _MIB, 413, chunked=True),
            _huge(_RESHAPER, ADMIN, 200 * _MIB, 413),
            _huge(_RESHAPER, ATTACKER, 15 * _MIB, 400, 403, 413),
        ),
        memory_mib=400,  # buffers of unfinished bodies, plus memory that the allocator does not return
    ),
    Attack(
        "huge bodies without a token",
        _together(
            _huge(_SERVERS, None, 200 * _MIB, 401, 413),
            _huge(_RESHAPER, None, 200 * _MIB, 401, 413, chunked=True),
            _huge(_RESHAPER, None, 15 * _MIB, 401),
            _huge(_WHAT_IF, None, 200 * _MIB, 401, 413),
        ),
        memory_mib=100,
    ),
    Attack("odd JSON", in_turn(_odd, clients=2), own_s=5),
)
