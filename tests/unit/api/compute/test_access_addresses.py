# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.api.compute.access_addresses import read_addresses
from kilonova.errors import InvalidRequest


def test_addresses_are_shortened_and_absent_ones_stay_absent() -> None:
    assert read_addresses("server", None, "FE80:0:0:0:0:0:0:1") == {"access_ip_v6": "fe80::1"}
    assert read_addresses("server", None, None) == {}


@pytest.mark.parametrize("text", ["10.0.0", "10.0.0.1/8", "", "host"])
def test_an_invalid_address_is_refused_with_the_path_of_its_field(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_addresses("rebuild", text, None)
    assert refused.value.fields["field"] == "rebuild.accessIPv4"
