# SPDX-License-Identifier: Apache-2.0
import json
from typing import Any

import pytest
from tests.unit.scheduler.small_cloud import flavor

from kilonova.errors import ConfigurationError, InvalidRequest
from kilonova.model.image import Image
from kilonova.model.pci import NumaPolicy
from kilonova.scheduler.devices.pci_request import pci_requests, read_aliases

GPU = {"name": "gpu", "vendor_id": "10DE", "product_id": "1db4"}


def aliases(*values: dict[str, Any]) -> Any:
    return read_aliases(tuple(json.dumps(value) for value in values))


def test_a_flavor_asks_by_name_and_number() -> None:
    known = aliases(GPU, {**GPU, "name": "near", "numa_policy": "required", "device_type": "type-VF"})
    gpu, near = pci_requests(flavor({"pci_passthrough:alias": "gpu:2, near : 1"}), None, known)
    assert (gpu.alias, gpu.count, gpu.numa_policy) == ("gpu", 2, NumaPolicy.LEGACY)
    assert gpu.specs == ((("product_id", "1db4"), ("vendor_id", "10de")),)
    assert (near.count, near.numa_policy) == (1, NumaPolicy.REQUIRED)
    assert dict(near.specs[0])["dev_type"] == "type-VF"


def test_no_alias_is_no_request() -> None:
    assert pci_requests(flavor(), None, {}) == ()


def test_one_name_may_stand_for_several_devices() -> None:
    known = aliases(GPU, {**GPU, "product_id": "20b0"})
    (request,) = pci_requests(flavor({"pci_passthrough:alias": "gpu:1"}), None, known)
    assert [dict(spec)["product_id"] for spec in request.specs] == ["1db4", "20b0"]


def test_flavor_and_image_may_say_how_near() -> None:
    specs = {"pci_passthrough:alias": "gpu:1"}
    image = Image("i", properties={"hw_pci_numa_affinity_policy": "socket"})
    (request,) = pci_requests(flavor(specs), image, aliases(GPU))
    assert request.numa_policy is NumaPolicy.SOCKET
    specs["hw:pci_numa_affinity_policy"] = "required"
    (request,) = pci_requests(flavor(specs), None, aliases(GPU))
    assert request.numa_policy is NumaPolicy.REQUIRED
    with pytest.raises(InvalidRequest, match="hw_pci_numa_affinity_policy"):
        pci_requests(flavor(specs), image, aliases(GPU))


@pytest.mark.parametrize("asked", ["fpga:1", "gpu", "gpu:0", "gpu:one", ":1"])
def test_what_cannot_be_asked_for(asked: str) -> None:
    with pytest.raises(InvalidRequest, match="pci_passthrough:alias"):
        pci_requests(flavor({"pci_passthrough:alias": asked}), None, aliases(GPU))


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="hw:pci_numa_affinity_policy"):
        pci_requests(flavor({"hw:pci_numa_affinity_policy": "close"}), None, {})


@pytest.mark.parametrize(
    "values",
    [
        [{"vendor_id": "10de", "product_id": "1db4"}],
        [{"name": "gpu", "product_id": "1db4"}],
        [{**GPU, "vendor_id": "nvidia"}],
        [{**GPU, "colour": "red"}],
        [{**GPU, "numa_policy": "close"}],
        [{**GPU, "device_type": "vdpa"}],
        [GPU, {**GPU, "numa_policy": "required"}],
        [GPU, {**GPU, "device_type": "type-PF"}],
    ],
)
def test_aliases_that_cannot_be_meant(values: list[dict[str, Any]]) -> None:
    with pytest.raises(ConfigurationError, match="alias"):
        aliases(*values)


def test_an_alias_is_json() -> None:
    with pytest.raises(ConfigurationError, match="not valid JSON"):
        read_aliases(("gpu",))
