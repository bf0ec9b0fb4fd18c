# SPDX-License-Identifier: Apache-2.0
"""Every attribute of a request is part of its shape, except those in ``IGNORED``."""

from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestedNetwork, RequestSpec, ResourceGroup, ResourceQuery
from kilonova.model.server_group import GroupView
from kilonova.model.server_migration import MoveKind
from kilonova.scheduler.engine.request_shape import request_shape

SPEC = RequestSpec(Flavor("1", "m1", 1, 512, 1), Image("i"), networks=(RequestedNetwork("n"),))
#: Attributes that may differ between requests of the same shape.
IGNORED = {
    Flavor: {"description", "created_at", "updated_at"},
    Image: {"hash_algo", "hash_value"},
    RequestedNetwork: {"network_id", "port_id", "same_subtree", "trusted", "numa_policy"},
    ResourceQuery: set(),
    RequestSpec: {
        *("project_id", "user_id", "request_id", "remote_address", "is_admin"),
        *("instance_uuids", "unseen_instances"),
    },
}
VALUES: dict[str, Any] = {
    "image": None,
    "query": ResourceQuery({"VCPU": 1}),
    "fallback": ResourceQuery(),
    "groups": (ResourceGroup("1", {"VGPU": 1}),),
    "group": GroupView("g", "affinity", 1, {}),
    "networks": (),
    "move": MoveKind.LIVE_MIGRATE,
    "flavor": Flavor("2", "m2", 1, 512, 1),
}


def other(name: str, value: Any) -> Any:
    """Return another value for the attribute ``name``."""
    if name in VALUES:
        return VALUES[name]
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case frozenset():
            return frozenset({"x"})
        case tuple():
            return (frozenset({"x"}),) if name in {"segments", "member_of", "same_subtrees"} else ("x",)
        case dict():
            return {"x": ("y",)}
    return datetime(2026, 1, 1, tzinfo=UTC) if name.endswith("_at") else "x"


def changed(kind: type, name: str) -> RequestSpec:
    """Return ``SPEC`` with another value of one attribute of an object of this kind."""
    if kind is RequestSpec:
        return replace(SPEC, **{name: other(name, getattr(SPEC, name))})
    if kind is RequestedNetwork:
        network = SPEC.networks[0]
        return replace(SPEC, networks=(replace(network, **{name: other(name, getattr(network, name))}),))
    part = {Flavor: "flavor", Image: "image", ResourceQuery: "query"}[kind]
    whole: Any = getattr(SPEC, part)
    return replace(SPEC, **{part: replace(whole, **{name: other(name, getattr(whole, name))})})


@pytest.mark.parametrize(("kind", "name"), [(kind, each.name) for kind in IGNORED for each in fields(kind)], ids=str)
def test_an_attribute_counts_unless_it_is_listed(kind: type, name: str) -> None:
    counts = request_shape(changed(kind, name), "") != request_shape(SPEC, "")
    assert counts is (name not in IGNORED[kind])


def test_the_project_counts_if_a_rule_can_distinguish_it() -> None:
    assert request_shape(SPEC, "p") != request_shape(SPEC, "")
