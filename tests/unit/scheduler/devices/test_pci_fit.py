# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.small_devices import cell, gpus

from kilonova.model.pci import PF, NumaPolicy, PciRequest
from kilonova.scheduler.devices.pci_fit import Served, matches, serve

GPU = (("product_id", "1DB4"), ("vendor_id", "10de"))


def asked(count: int = 1, policy: NumaPolicy = NumaPolicy.LEGACY, *specs: tuple[tuple[str, str], ...]) -> PciRequest:
    return PciRequest("gpu", count, specs or (GPU,), policy)


def test_one_of_several_specs_must_match_in_any_case() -> None:
    assert matches(gpus(0, 1, None), asked())
    assert matches(gpus(0, 1, None), asked(1, NumaPolicy.LEGACY, (("vendor_id", "8086"),), GPU))
    assert not matches(gpus(0, 1, None), asked(1, NumaPolicy.LEGACY, (*GPU, ("physical_network", "a"))))


def test_physical_functions_and_remotely_managed_devices_are_not_given_unasked() -> None:
    whole = gpus(0, 1, None, dev_type=PF)
    assert not matches(whole, asked())
    assert matches(whole, asked(1, NumaPolicy.LEGACY, (*GPU, ("dev_type", PF))))
    assert not matches(gpus(0, 1, None, tags=(("remote_managed", "True"),)), asked())


def test_requests_for_the_same_pools_are_served_together() -> None:
    pools = (gpus(0, 2, None), gpus(1, 3, None, used=2))
    assert serve(pools, [asked(2), asked(1)]) == Served(((0, 2), (1, 1)))
    assert serve(pools, [asked(2), asked(2)]) is None
    assert serve(pools, []) == Served()


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (NumaPolicy.REQUIRED, [0]),
        (NumaPolicy.LEGACY, [0, 1]),
        (NumaPolicy.SOCKET, [0, 2]),
        (NumaPolicy.PREFERRED, [0, 1, 2, 3]),
    ],
)
def test_a_policy_bounds_how_far_a_device_may_be(policy: NumaPolicy, expected: list[int]) -> None:
    cells = [cell(number) for number in range(4)]  # cells 0 and 1 share a socket
    near, unknown, socket, far = gpus(0, 1, 0), gpus(1, 1, None), gpus(2, 1, 1), gpus(3, 1, 2)
    served = [pool.number for pool in (near, unknown, socket, far) if serve((pool,), [asked(1, policy)], cells, {0})]
    assert served == expected
    assert serve((far, socket, unknown, near), [asked(1, policy)], cells, {0}) == Served(((0, 1),)), (
        "the nearest comes first"
    )


def test_a_server_without_cells_takes_devices_from_anywhere() -> None:
    assert serve((gpus(0, 1, 3),), [asked(1, NumaPolicy.REQUIRED)]) == Served(((0, 1),))
