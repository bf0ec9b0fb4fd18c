# SPDX-License-Identifier: Apache-2.0
"""Whatever is sent, the answer is no 500, and what is refused changed nothing."""

from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.placement.placement_service import Placement
from kilonova.api.placement.family import PlacementFamily
from support.samples import sampled

UUIDS = tuple(str(uuid4()) for _ in range(3))
WORDS = (
    "VCPU",
    "DISK_GB",
    "CUSTOM_A",
    "HW_CPU_X86_AVX",
    "MISC_SHARES_VIA_AGGREGATE",
    "PONY",
    "",
    "☃",
    "a\0b",
    "x" * 300,
)
NUMBERS = (0, 1, 2, 8, -1, 2**31, 2**63, 2**70, 1.5, 1e300)
FIELDS = (
    "name", "uuid", "parent_provider_uuid", "resource_provider_generation", "total", "reserved", "min_unit",
    "max_unit", "step_size", "allocation_ratio", "inventories", "traits", "aggregates", "allocations", "resources",
    "resource_class", "project_id", "user_id", "consumer_generation", "consumer_type", "mappings",
    "resource_provider", "generation",
)  # fmt: skip
PARAMETERS = (
    "name", "uuid", "member_of", "resources", "required", "in_tree", "limit", "group_policy", "root_required",
    "same_subtree", "project_id", "user_id", "consumer_type", "associated", "resources1", "required1", "member_of1",
    "in_tree1", "resources_X", "required_X",
)  # fmt: skip

texts = st.one_of(st.sampled_from((*WORDS, *UUIDS)), st.text(max_size=8))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from((*FIELDS, *WORDS[:4], *UUIDS)), texts), inner, max_size=4),
    ),
    max_leaves=12,
)
phrases = st.one_of(
    texts,
    st.sampled_from(("VCPU:1", "VCPU:1,DISK_GB:2", "VCPU:0", "VCPU:99999999999999999999", "in:HW_CPU_X86_AVX,PONY")),
    st.sampled_from(
        (f"in:{UUIDS[0]},{UUIDS[1]}", f"!in:{UUIDS[0]}", f"!{UUIDS[1]}", "isolate", "none", "1,_X", "true")
    ),
)
amounts = st.dictionaries(st.sampled_from(("VCPU", "DISK_GB", "CUSTOM_A", "PONY")), st.integers(0, 9), max_size=2)
consumers = st.fixed_dictionaries(
    {
        "allocations": st.dictionaries(
            st.sampled_from(UUIDS), st.fixed_dictionaries({"resources": amounts}), max_size=2
        ),
        "project_id": st.sampled_from(("p", "☃")),
        "user_id": st.just("u"),
        "consumer_generation": st.sampled_from((None, 1, 2)),
        "consumer_type": st.sampled_from(("INSTANCE", "x")),
    }
)
inventories = st.dictionaries(
    st.sampled_from(("VCPU", "DISK_GB", "PONY")),
    st.fixed_dictionaries({"total": st.integers(0, 9)}, optional={"reserved": st.integers(0, 9)}),
    max_size=2,
)
shapes = st.fixed_dictionaries({"inventories": inventories, "resource_provider_generation": st.integers(0, 3)})
bodies = st.one_of(
    values,
    st.fixed_dictionaries({"name": texts, "uuid": st.sampled_from(UUIDS)}),
    st.fixed_dictionaries({"name": texts, "parent_provider_uuid": st.sampled_from((None, *UUIDS))}),
    shapes,
    consumers,
    st.dictionaries(st.sampled_from(UUIDS), consumers, max_size=2),
    st.fixed_dictionaries(
        {
            "inventories": st.dictionaries(st.sampled_from(UUIDS), shapes, max_size=2),
            "allocations": st.dictionaries(st.sampled_from(UUIDS), consumers, max_size=2),
        }
    ),
    st.fixed_dictionaries({"resource_class": st.sampled_from(("VCPU", "PONY")), "total": st.sampled_from(NUMBERS)}),
    st.fixed_dictionaries({"traits": st.lists(texts, max_size=2), "resource_provider_generation": st.integers(0, 3)}),
    st.fixed_dictionaries(
        {"aggregates": st.lists(st.sampled_from(UUIDS), max_size=2), "resource_provider_generation": st.integers(0, 3)}
    ),
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, Any, str]:
    path = draw(st.sampled_from(sorted(PlacementFamily.routes)))
    for name in ("uuid", "consumer_uuid"):
        path = path.replace(f"{{{name}}}", quote(draw(st.one_of(st.sampled_from(UUIDS), texts)), safe=""))
    for name in ("name", "resource_class"):
        path = path.replace(f"{{{name}}}", quote(draw(texts), safe=""))
    query = draw(st.lists(st.tuples(st.one_of(st.sampled_from(PARAMETERS), texts), phrases), max_size=4))
    method = draw(st.sampled_from(("GET", "PUT", "POST", "DELETE", "HEAD", "PATCH")))
    version = draw(st.sampled_from(("1.0", "1.7", "1.12", "1.28", "1.36", "1.39")))
    return method, f"{path}?{urlencode(query)}", draw(bodies), version


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"], indirect=True)
@settings(
    max_examples=sampled(300, sample=100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(request=requests())
def test_any_request_is_answered_and_what_is_refused_changed_nothing(
    placement: Placement, request: tuple[str, str, Any, str]
) -> None:
    method, path, body, version = request
    before = placement.everything()
    client = placement.admin.as_user("admin", X_Roles="admin,service").at(version)
    answer = client.send(method, path, body if method in {"PUT", "POST", "PATCH"} else None)
    assert answer.status < 500, answer.raw
    if answer.status >= 400 or method in {"GET", "HEAD"}:
        assert placement.everything() == before
    assert placement.recorded() == placement.sums()
