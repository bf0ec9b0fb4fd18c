# SPDX-License-Identifier: Apache-2.0
"""Attacks with lists of excessive numbers of keys, filters and values, and with extreme dates."""

from collections.abc import Iterator
from urllib.parse import urlencode

from attack.attack import Ask, Attack, ask, in_turn
from attack.target import ADMIN, ATTACKER

_LISTS = (
    "/compute/v2.1/servers", "/compute/v2.1/servers/detail", "/compute/v2.1/flavors/detail",
    "/compute/v2.1/os-server-groups", "/compute/v2.1/os-keypairs", "/compute/v2.1/os-hypervisors/detail",
    "/compute/v2.1/os-services", "/compute/v2.1/os-aggregates", "/placement/resource_providers", "/placement/traits",
    "/placement/resource_classes", "/placement/usages", "/operator/v1/decisions",
)  # fmt: skip
_DATES = (
    "0001-01-01T00:00:00+14:00", "0001-01-01", "9999-12-31T23:59:59-14:00", "9999-12-31T23:59:60Z", "0000-00-00",
    "10000-01-01", "-0001-01-01", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00+99:99", "1e9",
    "\u0661\u0662\u0663\u0664-\u0660\u0661-\u0660\u0661", "2026-W53-7",
)  # fmt: skip


def _ask(what: str, path: str, asked: list[tuple[str, str]]) -> Iterator[Ask]:
    version = "placement 1.39" if path.startswith("/placement") else "compute 2.100"
    for token in (ATTACKER, ADMIN):
        yield ask(what, "GET", f"{path}?{urlencode(asked)}", token=token, version=version)


def _long_queries(_number: int) -> Iterator[Ask]:
    for path in _LISTS:
        for count in (40, 300, 1000):
            keys = ("created_at", "uuid", "display_name", "updated_at", "vm_state", "id", "name")
            pairs = [("sort_key", keys[n % len(keys)]) for n in range(count)] + [("sort_dir", "desc")] * count
            yield from _ask("sort keys", path, pairs)
            yield from _ask("tags", path, [("tags", ",".join(f"t{n}" for n in range(count)))])
            yield from _ask("not-tags-any", path, [("not-tags-any", ",".join(f"t{n}" for n in range(count)))])
            yield from _ask("status", path, [("status", f"s{n}") for n in range(count)])
            yield from _ask("uuid", path, [("uuid", f"{n}") for n in range(count)])
            yield from _ask("names", path, [("name", f"n{n}") for n in range(count)])
            yield from _ask("unknown", path, [(f"x{n}", "") for n in range(count)])
            yield from _ask("member_of", path, [("member_of", f"in:{n}") for n in range(count)])
        yield from _ask("limit", path, [("limit", "9" * 400)])
        yield from _ask("offset", path, [("limit", "1"), ("offset", "9" * 400)])
        yield from _ask("marker", path, [("marker", "x" * 5000)])
        yield from _ask("a long value", path, [("name", "x" * 30_000)])


def _dates(_number: int) -> Iterator[Ask]:
    for path in _LISTS:
        for date in _DATES:
            for name in ("changes-since", "changes-before", "created_at", "launched_at", "updated_at"):
                yield from _ask(f"{name}={date[:12]}", path, [(name, date), ("deleted", "true")])


ATTACKS = (
    Attack("long queries", in_turn(_long_queries), own_s=3),
    Attack("dates at the borders", in_turn(_dates), own_s=2),
)
