# SPDX-License-Identifier: Apache-2.0
"""Sample bodies and queries generated from JSON Schemas: valid ones, and ones with one invalid part.

Imported in Nova's environment, so it must not import Kilonova.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

#: Returns whether an instance is valid for a schema.
Fits = Callable[..., bool]
_UUID = "5b674f73-0000-4000-8000-000000000000"
_TEXTS = (
    "a", "", " ", " a", "a ", "a b", "a.b", "a/b", "a:b", "a,b", "a_b-c", "ä", "😀", "a\nb", "a\tb", "\x7f", "\u3000",
    "0", "1", "-1", "01", "+1", "1.5", " 1", "2147483647", "2147483648", "true", "True", "False", "on", "maybe", "none",
    "auto", "null", "ssh", "192.168.0.1", "10.0.0.0/8", "300.1.1.1", "fe80::1", "2001:db8::1", "fe80::1%eth0",
    "a.example.org", "-a", "a-", "YQ==", "YQ", "not base64!", "2026-01-01T00:00:00Z", "2026-01-01 00:00:00",
    "2026-01-01T00:00:00.123456", "2026-01-01", "20260101T000000Z", "2026-01-01T00:00:00+01:00", "yesterday",
    _UUID, _UUID.upper(), _UUID.replace("-", ""), f"{{{_UUID}}}", f"urn:uuid:{_UUID}",
    f"http://glance/images/{_UUID}", "http://glance/", "/dev/vdb", "vdb", "^a", "[", "uuid", "name", "asc", "desc",
    "display_name", "active", "error", "host:node", "compute1", "up", "qcow2",
)  # fmt: skip
_OTHERS: tuple[Any, ...] = (None, True, False, 0, 1, -1, 1.0, 1.5, 2147483647, 2147483648, 2**63, [], {}, [1], {"a": 1})
_LENGTHS = (64, 255, 256, 1024)
_FIRST: dict[str, Any] = {}


def samples_of(schemas: list[Any], fits: Fits) -> list[Any]:
    """Return distinct instances to validate against all of these schemas."""
    found: dict[str, Any] = {}
    for schema in schemas:
        for sample in _samples(schema, fits):
            found.setdefault(json.dumps(sample, sort_keys=True), sample)
    return list(found.values())


def _samples(schema: Any, fits: Fits) -> Iterator[Any]:
    for branch in _branches(schema):
        kinds = branch.get("type", ())
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if "object" in kinds or "properties" in branch or "patternProperties" in branch:
            yield from _objects(branch, fits)
        elif "array" in kinds:
            yield from _arrays(branch, fits)
        yield from branch.get("enum", ())
        if "const" in branch:
            yield branch["const"]
        yield from _texts(branch)
        yield from _numbers(branch)
    yield from _OTHERS


def _branches(schema: Any) -> Iterator[Any]:
    """Yield the alternatives of a schema's anyOf, oneOf and allOf, each merged with the keywords beside them."""
    own = {key: value for key, value in schema.items() if key not in {"anyOf", "oneOf", "allOf"}}
    parts = [part for key in ("anyOf", "oneOf", "allOf") for part in schema.get(key, ())]
    if not parts:
        yield own
    for part in parts:
        yield from _branches({**own, **part})


def _texts(schema: Any) -> Iterator[str]:
    yield from _TEXTS
    lengths = {schema[key] + more for key in ("minLength", "maxLength") if key in schema for more in (-1, 0, 1)}
    for length in sorted({*lengths, *(_LENGTHS if "maxLength" not in schema else ())}):
        if length > 0:
            yield "a" * length


def _numbers(schema: Any) -> Iterator[int]:
    for key in ("minimum", "maximum"):
        for more in (-1, 0, 1) if key in schema else ():
            yield schema[key] + more
            yield str(schema[key] + more)  # type: ignore[misc]


def _first(schema: Any, fits: Fits) -> Any:
    key = json.dumps(schema, sort_keys=True)
    if key not in _FIRST:  # cached, since bodies repeat the same subschemas
        _FIRST[key] = _first_of(schema, fits)
    return _FIRST[key]


def _first_of(schema: Any, fits: Fits) -> Any:
    for sample in _samples(schema, fits):
        if sample is not None and fits(schema, sample, is_body=True):
            return sample
    return None


def _objects(schema: Any, fits: Fits) -> Iterator[Any]:
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    least = {name: _first(properties.get(name, {}), fits) for name in required}
    yield least
    for name in least:
        yield {key: value for key, value in least.items() if key != name}
    for extra in ("unknown", "OS-EXT:unknown", "a" * 255, "a" * 256, "", " ", "a b", "ä", "key", "a/b", "a:b", "a.b"):
        for value in ("a", 1, None, "a" * 256) if "patternProperties" in schema else ("a",):
            yield {**least, extra: value}
    for pattern in schema.get("patternProperties", {}).values():
        for value in _samples(pattern, fits):
            yield {**least, "a": value}
    yield {**least, "unknown": ["a"]}
    whole = dict(least)
    for name, inner in properties.items():
        for value in _samples(inner, fits):
            yield {**least, name: value}
        fuller = {**whole, name: _first(inner, fits)}
        if fits(schema, fuller, is_body=True):
            whole = fuller
    yield whole
    yield {**whole, "unknown": "a"}


def _arrays(schema: Any, fits: Fits) -> Iterator[Any]:
    inner = schema.get("items", {})
    good = _first(inner, fits)
    yield []
    for value in _samples(inner, fits):
        yield [value]
    yield [good, good]
    most = min(schema.get("maxItems", 1), 300)
    different = _unlike(inner, most + 1, fits)
    yield different
    yield different[:most]
    yield different[:2]


def _unlike(schema: Any, most: int, fits: Fits) -> list[Any]:
    """Return distinct valid values."""
    texts = [f"a{number}" for number in range(most)]
    if fits(schema, texts[0], is_body=True):
        return texts
    first = _first(schema, fits)
    if not isinstance(first, dict):
        return [first]
    return [first, *({**first, name: value} for name, value in zip(first, ("b", 2), strict=False))]
