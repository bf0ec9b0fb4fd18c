# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.model.link_local import mac_in


@pytest.mark.parametrize(
    ("address", "mac"),
    [
        ("fe80::f816:3eff:fe00:1", "fa:16:3e:00:00:01"),
        ("fe80::200:5eff:fe00:5301", "00:00:5e:00:53:01"),
        ("fe80::a9fe:a9fe", None),
        ("fd00::f816:3eff:fe00:1", None),
        ("169.254.3.4", None),
        ("10.0.0.1", None),
    ],
)
def test_the_mac_in_an_address(address: str, mac: str | None) -> None:
    assert mac_in(address) == mac


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(ValueError, match="x"):
        mac_in("x")
