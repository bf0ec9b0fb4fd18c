# SPDX-License-Identifier: Apache-2.0
"""Attacks with short requests for expensive searches: allocation candidates, host filters, what-if queries."""

import json
from collections.abc import Iterator
from urllib.parse import urlencode

from attack.attack import Ask, Attack, ask, in_turn
from attack.target import ADMIN, IMAGE, TINY

_UUIDS = [f"00000000-0000-4000-8000-{number:012d}" for number in range(2000)]
_TRAITS = [f"HW_CPU_X86_{name}" for name in ("AVX", "AVX2", "SSE", "SSE2", "SSE3", "MMX", "SVM", "VMX")]


def _candidates(number: int) -> Iterator[Ask]:
    for groups in (8, 60, 400):
        for policy in ("isolate", "none"):
            asked = [("group_policy", policy)] + [(f"resources_{n}", "VCPU:1") for n in range(groups)]
            yield _placement("granular groups", asked)
            yield _placement(
                "with traits", [*asked, *((f"required_{n}", f"in:{','.join(_TRAITS)}") for n in range(groups))]
            )
            tree = ("same_subtree", ",".join(f"_{n}" for n in range(groups)))
            yield _placement("in one subtree", [*asked, tree])
    for many in (50, 500):
        yield _placement(
            "any of many traits", [("resources", "VCPU:1"), *([("required", f"in:{','.join(_TRAITS * many)}")] * 5)]
        )
        yield _placement("member of many", [("resources", "VCPU:1"), ("member_of", f"in:{','.join(_UUIDS[:many])}")])
        yield _placement("many member_of", [("resources", "VCPU:1"), *(("member_of", uuid) for uuid in _UUIDS[:many])])
        yield _placement("many classes", [("resources", ",".join(f"CUSTOM_{n}:1" for n in range(many)))])
        yield _placement(
            "forbidden traits", [("resources", "VCPU:1"), ("required", ",".join(f"!{t}" for t in _TRAITS * many))]
        )
    del number


def _placement(what: str, asked: list[tuple[str, str]]) -> Ask:
    path = f"/placement/allocation_candidates?{urlencode(asked)}"
    return ask(what, "GET", path, token=ADMIN, version="placement 1.39")


def _nested(depth: int) -> str:
    return '["not", ' * depth + '["=", "$vcpus_used", 0]' + "]" * depth


def _queries(_number: int) -> Iterator[Ask]:
    wide = ["and", *([[">=", "$free_ram_mb", 1]] * 4000)]
    long = [">=", "$free_ram_mb", *range(15_000)]
    flat = [wide, long, ["in", "$host", *map(str, range(15_000))]]
    for query in (*map(json.dumps, flat), _nested(90), _nested(9_000)):
        yield _hinted("query", {"query": query})
    for count in (50, 2000):
        yield _hinted("different hosts", {"different_host": _UUIDS[:count]})
        yield _hinted("same host", {"same_host": _UUIDS[:count]})
        yield _hinted("unknown hints", {f"hint{n}": "x" for n in range(count)})
    deep: object = "x"
    for _ in range(400):
        deep = {"x": [deep]}
    yield _hinted("deep hints", {"any": deep})
    yield _hinted("a network", {"build_near_host_ip": "10.0.0.1", "cidr": "/" + "9" * 5000})


def _hinted(what: str, hints: object) -> Ask:
    server = {"name": "x", "imageRef": IMAGE, "flavorRef": TINY, "networks": "none", "max_count": 2}
    body = json.dumps({"server": server, "os:scheduler_hints": hints}).encode()
    return ask(what, "POST", "/compute/v2.1/servers", body, 202, 400, 403, 413)


def _what_ifs(_number: int) -> Iterator[Ask]:
    for count in (1, 1000, 10**9):
        body = {"flavor": TINY, "image": IMAGE, "count": count}
        yield ask("what if", "POST", "/operator/v1/explain", body, token=ADMIN)


ATTACKS = (
    Attack("candidates that take long to find", in_turn(_candidates), own_s=5),
    Attack("hints and queries", in_turn(_queries), own_s=5),
    Attack("what-ifs", in_turn(_what_ifs), own_s=5),
)

CONFIGURATION = """
[filter_scheduler]
enabled_filters = ComputeFilter,JsonFilter,DifferentHostFilter,SameHostFilter,SimpleCIDRAffinityFilter
"""
