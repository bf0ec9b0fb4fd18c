# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.api.compute.family import ComputeFamily
from kilonova.api.faults import HttpError
from kilonova.api.microversion import Version, requested_version
from kilonova.errors import InvalidRequest


def test_versions_compare_as_numbers() -> None:
    assert Version(2, 10) > Version(2, 9)
    assert str(Version.parse("2.10")) == "2.10"


@pytest.mark.parametrize(
    "text", ["", "2", "2.", ".1", "02.1", "2.01", "2.1.1", "two", "2.x", "-2.1", "latest", "2.1\n"]
)
def test_anything_but_two_numbers_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Version.parse(text)


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (None, None),
        ("", None),
        ("compute 2.5", "2.5"),
        ("Compute 2.5", "2.5"),
        ("placement 1.1", None),
        ("placement 1.1,compute 2.5", "2.5"),
        ("compute latest", "latest"),
        ("compute", None),
        ("compute 2.5 6", None),
    ],
)
def test_the_header_entry_of_the_own_service(header: str | None, wanted: str | None) -> None:
    assert requested_version(header, "compute") == wanted


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ({}, Version(2, 1)),
        ({"OpenStack-API-Version": "compute 2.104"}, Version(2, 104)),
        ({"OpenStack-API-Version": "compute latest"}, Version(2, 104)),
        ({"X-OpenStack-Nova-API-Version": "2.7"}, Version(2, 7)),
        ({"X-OpenStack-Nova-API-Version": "2.7", "OpenStack-API-Version": "compute 2.8"}, Version(2, 8)),
    ],
)
def test_the_compute_family_chooses(headers: dict[str, str], wanted: Version) -> None:
    assert ComputeFamily().version(headers, "/v2.1/servers") == wanted


def test_discovery_ignores_the_header() -> None:
    assert ComputeFamily().version({"OpenStack-API-Version": "compute 9.9"}, "/v2.1") == Version(2, 1)


def test_out_of_range_and_malformed() -> None:
    family = ComputeFamily()
    with pytest.raises(HttpError) as refused:
        family.version({"OpenStack-API-Version": "compute 2.105"}, "/v2.1/servers")
    assert refused.value.status == 406
    with pytest.raises(InvalidRequest):
        family.version({"OpenStack-API-Version": "compute two"}, "/v2.1/servers")
