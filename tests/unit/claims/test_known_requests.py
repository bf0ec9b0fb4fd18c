# SPDX-License-Identifier: Apache-2.0
"""Derived values of requests: equal to those of a new computation, kept by shape."""

from dataclasses import replace

import pytest

from kilonova.claims.known_requests import DerivedRequest, KnownRequests
from kilonova.errors import InvalidRequest
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.resources import with_resources

PLAIN = RequestSpec(Flavor("1", "m1", 1, 512, 1), project_id="p", user_id="u", request_id="r")
PINNED = replace(PLAIN, flavor=replace(PLAIN.flavor, flavor_id="2", extra_specs={"hw:cpu_policy": "dedicated"}))


@pytest.mark.parametrize(
    "spec",
    [
        PLAIN,
        PINNED,
        replace(PLAIN, image=Image("i", properties={"trait:HW_CPU_X86_AVX": "required", "hw_disk_bus": "scsi"})),
        replace(PLAIN, volume_backed=True),
    ],
)
def test_known_values_equal_new_ones(spec: RequestSpec) -> None:
    known = KnownRequests({})
    _, first = known.derived(replace(spec, request_id="another"))
    complete, second = known.derived(spec)
    assert second is first
    assert complete == with_resources(spec)
    assert second == DerivedRequest.of(spec, {})
    assert second.shape == DerivedRequest.of(complete, {}).shape


def test_a_request_that_names_a_host_is_computed_each_time() -> None:
    known = KnownRequests({})
    spec = replace(PLAIN, force_host="h1")
    assert known.derived(spec)[1] is not known.derived(spec)[1]
    assert known.derived(spec)[1].shape is None


def test_contradictory_options_are_refused_each_time() -> None:
    known = KnownRequests({})
    spec = replace(PLAIN, flavor=replace(PLAIN.flavor, extra_specs={"pci_passthrough:alias": "none:1"}))
    for _ in range(2):
        with pytest.raises(InvalidRequest):
            known.derived(spec)


def test_the_number_of_shapes_is_limited() -> None:
    known = KnownRequests({}, most=2)
    specs = [replace(PLAIN, flavor=replace(PLAIN.flavor, flavor_id=str(number))) for number in range(3)]
    derived = [known.derived(spec)[1] for spec in specs]
    assert known.derived(specs[2])[1] is derived[2]
    assert known.derived(specs[0])[1] is not derived[0]
