# SPDX-License-Identifier: Apache-2.0
"""Attacks on regular expressions: worst-case texts for backtracking patterns, and worst-case patterns."""

from collections.abc import Iterable, Iterator
from urllib.parse import quote

from attack.attack import Ask, Attack, ask, in_turn
from attack.target import ADMIN, IMAGE, TINY

_BASE = {"imageRef": IMAGE, "flavorRef": TINY, "networks": "none"}
#: Repetitions that almost match many patterns, with an ending that does not match.
_TEXTS = [piece * count + end for piece in ("a", "a-", "a.", "0,", "0-1,", "^0,", " ", "-", "1:", "ab:", "é", "A1_")
          for count in (30, 300, 1600) for end in ("!", "", "\n")]  # fmt: skip
_REGULAR = (
    "(a+)+$", "(a*)*b", "(.*.*.*.*.*)*x", "(a|aa)+$", "(?i)(v|V)*" + "m" * 50, "((((a{1,100}){1,100}){1,100}))",
    ".*" * 60 + "x", "(" * 200 + "a" + ")" * 200, "[a-z]" * 120, "(?:x{0,1000}){0,1000}", r"(\w+\s?)*!", "a{99999}",
    "^(([a-z])+.)+[A-Z]([a-z])+$", "|".join("ab" * 20 for _ in range(6)), "(?=a)(?=a)(?=a).*", "\\", "[",
    "(?P<x>a)(?P=x)*",
)  # fmt: skip


def _texts(_number: int) -> Iterator[Ask]:
    for text in _TEXTS:
        yield ask(
            "server name", "POST", "/compute/v2.1/servers", {"server": {**_BASE, "name": text, "flavorRef": "no"}}
        )
        yield ask("host name", "POST", "/compute/v2.1/servers", {"server": {**_BASE, "name": "x", "hostname": text}})
        yield ask(
            "metadata", "POST", "/compute/v2.1/servers", {"server": {**_BASE, "name": "x", "metadata": {text: ""}}}
        )
        yield ask("tags", "POST", "/compute/v2.1/servers", {"server": {**_BASE, "name": "x", "tags": [text]}})
        yield ask(
            "zone", "POST", "/compute/v2.1/servers", {"server": {**_BASE, "name": "x", "availability_zone": text}}
        )
        yield ask("image", "POST", "/compute/v2.1/servers", {"server": {**_BASE, "name": "x", "imageRef": text}})
        yield ask("group", "POST", "/compute/v2.1/os-server-groups", {"server_group": {"name": text, "policy": text}})
        yield ask("key", "POST", "/compute/v2.1/os-keypairs", {"keypair": {"name": text, "public_key": text}})
        yield ask(
            "not allowed", "POST", "/compute/v2.1/flavors", {"flavor": {"name": text, "ram": 1, "vcpus": 1, "disk": 1}}
        )
        for key in ("hw:cpu_dedicated_mask", "hw:numa_cpus.0", "hw:mem_page_size", "trait:" + text[:200], text[:250]):
            specs = {"extra_specs": {key: text}}
            path = f"/compute/v2.1/flavors/{TINY}/os-extra_specs"
            yield (
                ask("extra spec", "POST", path, specs, 400, 413, token=ADMIN)
                if text.endswith("!")
                else ask("not allowed", "POST", path, specs)
            )
        if "\n" not in text:
            yield ask(
                "trait", "PUT", f"/placement/traits/{quote('CUSTOM_' + text)}", token=ADMIN, version="placement 1.39"
            )
            query = quote(text)
            yield ask("resources", "GET", f"/placement/allocation_candidates?resources={query}", token=ADMIN)
            yield ask("required", "GET", f"/placement/resource_providers?required={query}", token=ADMIN)


def _regular(_number: int) -> Iterable[Ask]:
    for pattern in _REGULAR:
        for name in ("name", "ip", "ip6", "hostname", "image", "description"):
            yield ask(f"?{name}=", "GET", f"/compute/v2.1/servers?{name}={quote(pattern)}")
        yield ask("all", "GET", f"/compute/v2.1/servers/detail?all_tenants=1&name={quote(pattern)}", token=ADMIN)
        path = f"/compute/v2.1/os-hypervisors?hypervisor_hostname_pattern={quote(pattern)}"
        yield ask("hypervisors", "GET", path, token=ADMIN)


ATTACKS = (
    Attack("texts for patterns that go back", in_turn(_texts), own_s=2),
    Attack("patterns that go back", in_turn(_regular), own_s=5),
)
