# SPDX-License-Identifier: Apache-2.0
"""Attacks with small requests that cause much work, many rows or long log lines."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attack.attack import Ask, Attack, Outcome, ask, in_turn
from attack.target import IMAGE, NOWHERE, TINY, Target

_FORGED = re.compile(rb"2026-01-01|forged|.*\x1b")
_LONGEST_LINE = 16_384


def _servers(what: str, *good: int, **changed: Any) -> Ask:
    server = {"name": "many", "imageRef": IMAGE, "flavorRef": TINY, "networks": "none", **changed}
    return ask(what, "POST", "/compute/v2.1/servers", {"server": server}, *good)


def _counts(_number: int) -> Iterator[Ask]:
    yield _servers("20,000 servers", 400, max_count=20_000)
    yield _servers("2 to 20,000 servers", 400, min_count=2, max_count="20000")
    yield _servers("a billion servers", 400, max_count=10**9)
    yield _servers("1,001 servers", 400, min_count=1001)
    yield _servers("1,000 servers that fit nowhere", 202, 403, max_count=1000, flavorRef=NOWHERE)
    yield _servers("1,000 servers", 202, 403, max_count=1000)


def _contents(_number: int) -> Iterator[Ask]:
    data = base64.b64encode(b"x" * 48_000).decode()
    metadata = {f"key{n}": "v" * 255 for n in range(128)}
    yield _servers("user data", 202, 403, max_count=60, user_data=data, flavorRef=NOWHERE)
    yield _servers("metadata", 202, 403, max_count=60, metadata=metadata, flavorRef=NOWHERE)


def _log(_number: int) -> Iterator[Ask]:
    for text in ("x" * 14_000, "%0a2026-01-01%20INFO%20forged" * 300, "%1b%5b31m" * 1000, "%e2%80%a8forged" * 500):
        yield ask("path", "GET", f"/compute/v2.1/servers/{text}")
        yield ask("query", "GET", f"/compute/v2.1/servers?name={text}")
        yield ask("placement", "GET", f"/placement/resource_providers/{text}", token="admin")
        yield ask("trait", "PUT", f"/placement/traits/CUSTOM_{text}", token="admin")
        yield ask("delete", "DELETE", f"/compute/v2.1/os-keypairs/{text}")
    yield _servers("name", name="x\r\n2026-01-01 CRITICAL forged \x1b[31m")
    yield _servers("metadata", metadata={"a": "b\n2026-01-01 CRITICAL forged"})


def _log_attack(target: Target, seconds: float) -> Outcome:
    outcome = in_turn(_log)(target, seconds)
    lines = Path(target.log).read_bytes().split(b"\n")
    outcome.wrong += [f"forged log line: {line!r}" for line in lines if _FORGED.match(line)][:5]
    longest = max(map(len, lines))
    if longest > _LONGEST_LINE:
        outcome.wrong.append(f"a log line of {longest} bytes")
    return outcome


ATTACKS = (
    Attack("many servers in one request", in_turn(_counts, clients=2), own_s=10),
    Attack("large contents in many servers", in_turn(_contents, clients=2), own_s=10, disk_mib=600),
    Attack("what ends up in the log", _log_attack, disk_mib=20),
)
