# SPDX-License-Identifier: Apache-2.0
"""No random request to any route returns 500, and a refused request changes nothing.

Bodies are valid ones of some route, valid ones with one modified part, or nonsense. ``make fuzz`` sends more of them,
with a new seed each time.
"""

import copy
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fuzz.fuzz_world import AGGREGATE, CHILD, CONSUMER, IMAGE, KEY, NEW, ROOT, SHARED, World, start_world
from kilonova.api.compute.family import ComputeFamily
from kilonova.api.operator.family import OperatorFamily
from kilonova.api.placement.family import PlacementFamily

_WANTED = os.environ.get("KILONOVA_FUZZ_REQUESTS")
_REQUESTS = int(_WANTED or 600)
_REPLENISH_EVERY = 40

ROUTES = [
    (family.name, template, method)
    for family in (ComputeFamily, PlacementFamily, OperatorFamily)
    for template, endpoints in family.routes.items()
    for method in endpoints
    if "{project_id}" not in template
]
_VERSIONS: Mapping[str, tuple[str, ...]] = {
    "compute": ("2.1", "2.14", "2.26", "2.37", "2.47", "2.52", "2.53", "2.64", "2.75", "2.90", "2.100", "latest"),
    "placement": ("1.0", "1.7", "1.8", "1.12", "1.13", "1.17", "1.28", "1.34", "1.36", "1.38", "1.39", "latest"),
    "operator": ("1.0",),
}
_VALUES: Mapping[str, tuple[str, ...]] = {
    "server_id": ("@server",),
    "server_group_id": ("@group",),
    "aggregate_id": ("@aggregate",),
    "service_id": ("@service",),
    "hypervisor_id": ("@hypervisor", "node1"),
    "flavor_id": ("1", "2"),
    "keypair_name": ("key",),
    "key": ("hw:cpu_policy", "anything"),
    "uuid": (ROOT, CHILD, SHARED, "@hypervisor", NEW),
    "consumer_uuid": (CONSUMER, "@server"),
    "resource_class": ("VCPU", "MEMORY_MB", "CUSTOM_A"),
    "name": ("CUSTOM_A", "CUSTOM_T", "VCPU", "HW_CPU_X86_AVX", "CUSTOM_NEW", "@decision", "@server"),
}

_ODD_TEXTS = ("", " ", "☃", "\x00", "\u2028", "a" * 300, "%", "'", "-1", "0", "null", "../..", "\ud83d\ude00", "NaN")
_ODD = (None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**30, 1.5, -0.0, 1e308, [], {}, [[]], [None], {"": None})
_NAMES = (
    "name", "id", "uuid", "resources", "allocations", "total", "server", "flavor", "metadata", "host", "generation",
    "resource_provider_generation", "consumer_generation", "os:scheduler_hints", "tags", "description", "policy",
)  # fmt: skip
_PARAMETERS = (
    "limit", "marker", "sort_key", "sort_dir", "all_tenants", "name", "status", "host", "changes-since", "user_id",
    "changes-before", "deleted", "flavor", "image", "ip", "tags", "not-tags-any", "is_public", "minDisk", "minRam",
    "with_servers", "hypervisor_hostname_pattern", "binary", "offset", "project_id", "uuid", "member_of", "resources",
    "required", "in_tree", "group_policy", "root_required", "same_subtree", "consumer_type", "resources1", "required1",
    "member_of1", "in_tree1", "resources_X", "required_X", "reservation_id", "vm_state", "task_state", "locked",
)  # fmt: skip
_PHRASES = (
    "1", "5", "true", "ACTIVE", "node1", "@server", "@group", "vm", "vm.*", "(", "created_at", "asc", "desc", ROOT,
    "VCPU:1", "VCPU:1,DISK_GB:2", "VCPU:0", "VCPU:9999999999999999999999", "VCPU", "CUSTOM_A:1", "HW_CPU_X86_AVX",
    "!CUSTOM_T", "in:CUSTOM_T,HW_CPU_X86_AVX", f"in:{AGGREGATE},{NEW}", f"!in:{AGGREGATE}", f"!{AGGREGATE}", AGGREGATE,
    "isolate", "none", "1,_X", "INSTANCE", "2026-01-01T00:00:00Z", "2026-13-01", "None", "9223372036854775808",
)  # fmt: skip

_RESOURCES = {"VCPU": 1, "MEMORY_MB": 2}
_CLAIM = {
    "allocations": {ROOT: {"resources": _RESOURCES}},
    "project_id": "p",
    "user_id": "u",
    "consumer_generation": None,
    "consumer_type": "INSTANCE",
}
_INVENTORIES = {"inventories": {"VCPU": {"total": 16, "reserved": 1}}, "resource_provider_generation": 1}
_SERVER = {"name": "vm", "imageRef": IMAGE, "flavorRef": "1", "networks": "auto"}
_GROUP_RULES = {"name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": 2}}
GOOD_BODIES: tuple[Any, ...] = (
    {"server": _SERVER},
    {"server": {**_SERVER, "max_count": 2, "min_count": 1, "metadata": {"a": "b"}, "tags": ["t"], "key_name": "key"}},
    {"server": {**_SERVER, "availability_zone": "nova:node1", "description": "d", "config_drive": True}},
    {"server": {**_SERVER, "host": "node1", "hypervisor_hostname": "node1", "OS-DCF:diskConfig": "AUTO"}},
    {
        "server": {
            **_SERVER,
            "user_data": "aGVsbG8=",
            "security_groups": [{"name": "default"}],
            "accessIPv4": "10.0.0.1",
        }
    },
    {"server": _SERVER, "os:scheduler_hints": {"group": "@group", "same_host": ["@server"], "query": '["=","$a","b"]'}},
    {"reboot": {"type": "HARD"}},
    {"reboot": {"type": "SOFT"}},
    {"os-start": None},
    {"os-stop": None},
    {"flavor": {"name": "f3", "ram": 1, "vcpus": 1, "disk": 0, "id": "3", "swap": 1, "rxtx_factor": 1.5}},
    {"flavor": {"description": "words"}},
    {"extra_specs": {"hw:cpu_policy": "shared", "resources:VCPU": "1", "trait:CUSTOM_T": "required"}},
    {"hw:cpu_policy": "shared"},
    {"anything": "value"},
    {"addTenantAccess": {"tenant": "wonder"}},
    {"removeTenantAccess": {"tenant": "wonder"}},
    {"keypair": {"name": "k2", "public_key": KEY, "type": "ssh"}},
    {"aggregate": {"name": "a2", "availability_zone": "z"}},
    {"aggregate": {"name": "a3"}},
    {"add_host": {"host": "node1"}},
    {"remove_host": {"host": "node1"}},
    {"set_metadata": {"metadata": {"ssd": "true", "availability_zone": "z2", "old": None}}},
    {"server_group": {"name": "g", "policies": ["soft-affinity"]}},
    {"server_group": _GROUP_RULES},
    {"status": "disabled", "disabled_reason": "broken"},
    {"status": "enabled", "forced_down": True},
    {"name": "new", "uuid": NEW, "parent_provider_uuid": ROOT},
    {"name": "root", "parent_provider_uuid": None},
    {"name": "CUSTOM_NEW"},
    _INVENTORIES,
    {"resource_class": "DISK_GB", "total": 4, "resource_provider_generation": 1},
    {"total": 8, "reserved": 2, "allocation_ratio": 1.5, "resource_provider_generation": 1},
    {"traits": ["HW_CPU_X86_AVX", "CUSTOM_T"], "resource_provider_generation": 1},
    {"aggregates": [AGGREGATE], "resource_provider_generation": 1},
    [AGGREGATE],
    _CLAIM,
    {**_CLAIM, "mappings": {"": [ROOT]}},
    {
        "allocations": [{"resource_provider": {"uuid": ROOT}, "resources": _RESOURCES}],
        "project_id": "p",
        "user_id": "u",
    },
    {CONSUMER: _CLAIM, "@server": {**_CLAIM, "allocations": {}}},
    {"inventories": {ROOT: _INVENTORIES}, "allocations": {CONSUMER: _CLAIM}},
)
_QUESTION = {"flavor": "1", "image": IMAGE, "count": 2, "availability_zone": "nova", "hints": {"same_host": "@server"}}
_INLINE = {"vcpus": 99, "ram": 1, "extra_specs": {"a": "b"}}
_FLAVOR = {"name": "taken", "ram": 1, "vcpus": 1, "disk": 0, "id": "taken"}
_RIGHT_FOR = {
    ("POST", "/flavors"): ({"flavor": _FLAVOR},),
    ("POST", "/v1/capacity"): ({"flavors": ["1", {"name": "big", **_INLINE}], "image": IMAGE, "group": "@group"}, {}),
    ("POST", "/v1/drain"): ({"hosts": ["node1"], "how": "live", "limits": {"per_host": 1, "gib_per_host": 2.5}},),
    ("POST", "/v1/explain"): (_QUESTION, {"flavor": _INLINE, "image": {"properties": {"a": "b"}}, "group": "@group"}),
    ("PUT", "/resource_providers/{uuid}/inventories"): (_INVENTORIES,),
    ("PUT", "/allocations/{consumer_uuid}"): (_CLAIM,),
    ("POST", "/allocations"): ({CONSUMER: _CLAIM},),
    ("POST", "/reshaper"): ({"inventories": {ROOT: _INVENTORIES}, "allocations": {CONSUMER: _CLAIM}},),
}

texts = st.one_of(st.sampled_from(_ODD_TEXTS), st.text(max_size=6))
leaves = st.one_of(st.sampled_from(_ODD), texts, st.integers(), st.floats(allow_nan=False, allow_infinity=False))
invalid = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.sampled_from(_NAMES), texts), inner, max_size=3)
    ),
    max_leaves=8,
)
raw_bodies = st.one_of(
    st.binary(max_size=20),
    st.sampled_from((b"{", b'{"a": 1,}', b"\xff\xfe", b"[" * 2000, b'{"a":' * 600, b'"\\ud800"', b"NaN", b"1e999")),
)
generations = st.integers(0, 6)


@dataclass(frozen=True)
class Request:
    """Request with placeholders such as ``@server``, which are replaced before it is sent."""

    method: str
    path: str
    raw: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@st.composite
def bodies(draw: st.DrawFn, method: str, template: str) -> bytes:
    """Draw a valid body of some route, often of this one and often with one modified part, or nonsense."""
    kind = draw(st.integers(0, 19))
    if kind == 0:
        return draw(raw_bodies)
    if kind <= 2:
        return _encoded(draw(invalid))
    right = _RIGHT_FOR.get((method, template), ())
    body = copy.deepcopy(draw(st.sampled_from(right if right and draw(st.booleans()) else GOOD_BODIES)))
    _set_generations(body, draw(generations))
    for _ in range(draw(st.integers(0, 2))):
        body = _spoilt(draw, body)
    return _encoded(body)


def _encoded(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=True).encode()


def _set_generations(body: Any, value: int) -> None:
    """Set every generation in a body to the same value, which is sometimes the right one."""
    waiting = [body]
    for item in waiting:
        if isinstance(item, dict):
            for name in ("resource_provider_generation", "consumer_generation"):
                if item.get(name) is not None or (name in item and value == 6):
                    item[name] = value
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def _spoilt(draw: st.DrawFn, body: Any) -> Any:
    """Replace, remove or add one part, at any depth."""
    if isinstance(body, dict) and body and draw(st.integers(0, 4)):
        name = draw(st.sampled_from(sorted(body)))
        action = draw(st.integers(0, 5))
        if action == 0:
            return {key: value for key, value in body.items() if key != name}
        if action == 1:
            return {**body, draw(st.one_of(st.sampled_from(_NAMES), texts)): draw(invalid)}
        if action == 2:
            return {(draw(texts) if key == name else key): value for key, value in body.items()}
        return {**body, name: _spoilt(draw, body[name])}
    if isinstance(body, list) and body and draw(st.booleans()):
        index = draw(st.integers(0, len(body) - 1))
        return [*body[:index], _spoilt(draw, body[index]), *body[index + draw(st.integers(0, 1)) :]]
    return draw(invalid)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    family, template, method = draw(st.sampled_from(ROUTES))
    path = template
    for name, known in _VALUES.items():
        if f"{{{name}}}" in path:
            value = draw(st.sampled_from(known)) if draw(st.integers(0, 5)) else draw(texts)
            path = path.replace(f"{{{name}}}", quote(value, safe="@", errors="surrogatepass"))
    if not draw(st.integers(0, 11)):
        method = draw(st.sampled_from(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")))
    pairs = draw(
        st.lists(
            st.tuples(st.one_of(st.sampled_from(_PARAMETERS), texts), st.one_of(st.sampled_from(_PHRASES), texts)),
            max_size=3 if method in {"GET", "HEAD"} else 1,
        )
    )
    query = urlencode(pairs, safe="@:,!", errors="surrogatepass")
    headers = {"X-Auth-Token": draw(st.sampled_from(("admin",) * 6 + ("alice:wonder", "x", "")))}
    version = draw(st.sampled_from((*_VERSIONS[family] * 2, "9.9", "2", "☃".encode().decode("latin-1"), "")))
    headers["OpenStack-API-Version"] = f"{family} {version}"
    raw = draw(bodies(method, template)) if method in {"POST", "PUT", "PATCH"} or not draw(st.integers(0, 15)) else b""
    if raw:
        odd = ("text/plain", "application/xml", "")
        headers["Content-Type"] = draw(st.sampled_from(("application/json",) * 9 + odd))
    if not draw(st.integers(0, 9)):
        headers["Accept"] = draw(st.sampled_from(("*/*", "application/json", "text/html", "text/plain;q=x", ",")))
    return Request(method, f"/{family}{path}" + (f"?{query}" if query else ""), raw, headers)


@pytest.fixture(scope="module")
def world(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("fuzz")
    shutil.copy(sqlite_template, folder / "kilonova.db")
    started = start_world(folder)
    yield started
    started.watcher.close()
    started.process.close()


_answers: dict[int, int] = {}


# All requests use one cloud, so Hypothesis cannot shrink a failing request: the state has changed meanwhile.
@settings(
    max_examples=_REQUESTS,
    deadline=None,
    derandomize=_WANTED is None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(request=requests())
def test_any_request_is_answered_and_what_is_refused_changed_nothing(world: World, request: Request) -> None:
    if sum(_answers.values()) % _REPLENISH_EVERY == 0:
        world.replenish()
    before = world.state()
    answer = world.send(request.method, request.path, request.raw, request.headers)
    _answers[answer.status] = _answers.get(answer.status, 0) + 1
    # 501: the fake driver does not support the request
    assert answer.status < 500 or answer.status == 501, (request, answer.raw)
    if answer.status < 300:
        world.settle()
    if answer.status >= 300 or request.method in {"GET", "HEAD"}:
        assert world.state() == before, (request, answer)


_MANY = 5000


def test_the_requests_before_were_of_all_kinds() -> None:
    """The random requests above must have reached many different outcomes to be meaningful."""
    assert sum(_answers.values()) >= _REQUESTS
    assert {200, 204, 400, 404} <= set(_answers), _answers
    assert {202, 409} <= set(_answers) or _REQUESTS < _MANY, _answers  # a small sample may reach neither 202 nor 409
    done = sum(count for status, count in _answers.items() if status < 300)
    assert done > _REQUESTS / 10, _answers
