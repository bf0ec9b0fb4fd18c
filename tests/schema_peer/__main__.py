# SPDX-License-Identifier: Apache-2.0
"""Compare the requests and responses of the compute API with Nova's schemas, read from standard input.

Exit code 1 for a difference that is not in :mod:`schema_peer.on_purpose`.
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from api.access_world import ENDPOINTS
from kilonova.api.http import Endpoint
from kilonova.api.microversion import Version
from kilonova.errors import InvalidRequest
from schema_peer.answers import wrong_answers
from schema_peer.on_purpose import is_on_purpose

_NEWEST = 104
#: Key of a difference: method and route, body or query, the differing fields, and whether Nova accepts it.
About = tuple[str, str, frozenset[str], bool]


def ours() -> Mapping[str, Endpoint]:
    """Return method, route and action, without the names of parameters → endpoint."""
    return {
        re.sub(r"{\w+}", "{}", key.removeprefix("compute ").replace("/v2.1/", "/", 1)): endpoint
        for key, endpoint in ENDPOINTS.items()
        if key.startswith("compute ")
    }


def _takes(endpoint: Endpoint, kind: str, sample: Any, minor: int) -> bool:
    schemas = getattr(endpoint, kind)
    if schemas is None:
        return True
    try:
        schemas.check(sample, Version(2, minor))
    except InvalidRequest:
        return False
    return True


def _flat(sample: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(sample, dict) and sample:
        for key, value in sample.items():
            yield from _flat(value, f"{path}.{key}".lstrip("."))
    elif isinstance(sample, list) and sample:
        for value in sample:
            yield from _flat(value, path)
    else:
        yield path, json.dumps(sample)


def _fields(sample: Any, right: Any) -> frozenset[str]:
    """Return the fields in which a sample differs from the first one that Nova accepts."""
    there, usual = set(_flat(sample)), set(_flat(right))
    return frozenset(path for path, _ in there ^ usual)


def _compared(key: str, endpoint: Endpoint, kind: str, theirs: Mapping[str, Any]) -> Iterator[tuple[About, int, Any]]:
    schemas, spans, samples = getattr(endpoint, kind), theirs[kind], theirs[f"{kind}_samples"]
    right = next((sample for sample, verdicts in samples if any(verdicts)), None)
    starts = {1, _NEWEST, *(span["from"] for span in spans), *(minor for _, minor in schemas.by_version)}
    since, until = theirs["since"] or 0, theirs["until"] or _NEWEST
    of_action = kind == "body" and len(key.split()) > 2
    for minor in sorted(starts):
        at = next((n for n, span in enumerate(spans) if span["from"] <= minor <= span["to"]), None)
        if at is None or not since <= minor <= until or not endpoint.exists_at(Version(2, minor)):
            continue
        COUNTED[kind] += len(samples)
        for sample, verdicts in samples:
            if of_action and not (isinstance(sample, dict) and len(sample) == 1):
                continue  # both APIs reject bodies without exactly one action
            if _takes(endpoint, kind, sample, minor) != verdicts[at]:
                yield (key, kind, _fields(sample, right), verdicts[at]), minor, sample


COUNTED: dict[str, int] = defaultdict(int)


def main() -> int:
    theirs, mine = json.load(sys.stdin), ours()
    found: dict[About, list[tuple[int, Any]]] = defaultdict(list)
    schemas = 0
    for key, kind in ((key, kind) for key in sorted(mine.keys() & theirs.keys()) for kind in ("body", "query")):
        if theirs[key][kind] and getattr(mine[key], kind) is not None:
            schemas += 1
            for about, minor, sample in _compared(key, mine[key], kind, theirs[key]):
                found[about].append((minor, sample))
    on_purpose = [about for about in found if is_on_purpose(about[0], about[2], taken=about[3])]
    wrong = [
        f"{key} {kind} {', '.join(sorted(fields)) or '(all)'}: {'Kilonova rejects' if taken else 'Nova rejects'} at"
        f" 2.{seen[0][0]}, {len(seen)} times, as {json.dumps(seen[0][1])[:200]}"
        for (key, kind, fields, taken), seen in found.items()
        if (key, kind, fields, taken) not in on_purpose
    ]
    answers, seen_methods, bad = wrong_answers(theirs, ENDPOINTS)
    print(f"{schemas} schemas of bodies and queries, {COUNTED['body']} bodies and {COUNTED['query']} queries compared.")
    print(f"{answers} responses of {seen_methods} methods checked.")
    print(f"{len(on_purpose)} differences are intended.")
    print("Different:", *(wrong + bad or ["nothing"]), sep="\n  ")
    return 1 if wrong or bad else 0


if __name__ == "__main__":
    sys.exit(main())
