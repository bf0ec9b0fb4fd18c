# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.claims.decision_inputs import DecisionInputs, decode, encode
from kilonova.mirror.state import Assumption
from kilonova.model.flavor import Flavor
from kilonova.model.host_devices import DeviceShare
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.guests import GuestKind

GUEST = GuestKind("1", (("os_distro", "x"),))
SHARE = DeviceShare(devices=((3, 1),))
SPEC = RequestSpec(
    Flavor("1", "m1", 1, 512, 1, extra_specs={"a": "b"}),
    Image("i", "cirros", properties={"os_distro": "x"}),
    "p",
    "u",
    "req-1",
    ("uuid-1", "uuid-2"),
    "zone",
    hints={"same_host": ("a", "b")},
    ignore_hosts=frozenset({"x", "y"}),
)


@pytest.mark.parametrize("spec", [SPEC, RequestSpec(SPEC.flavor)])
def test_what_is_stored_is_read_as_it_was(spec: RequestSpec) -> None:
    assumed = (Assumption("c", {"provider": {"VCPU": 1}}, "host", "node", None, GUEST, "node-uuid", SHARE),)
    made_on = DecisionInputs(spec, "group", 10, 7, 1_700_000_000.123456, assumed, 2**63 - 1)
    assert decode(encode(made_on, "digest")) == (made_on, "digest")
