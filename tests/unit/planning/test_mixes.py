# SPDX-License-Identifier: Apache-2.0
from itertools import islice

import pytest

from kilonova.model.flavor import Flavor
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.planning.hindrance import Hindrance
from kilonova.planning.mixes import Part, in_order, mix_capacity
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.host_table import HostTable

SMALL = RequestSpec(Flavor("1", "small", 1, 512, 0))
LARGE = RequestSpec(Flavor("2", "large", 4, 512, 0))
NOTHING = RequestSpec(Flavor("3", "none", 1, 1, 0, extra_specs={"resources:VCPU": "0", "resources:MEMORY_MB": "0"}))


def table(*vcpus: int) -> HostTable:
    return build_host_table(
        [
            HostRecord(f"n{number}", (Inventory("VCPU", each), Inventory("MEMORY_MB", 10_000)))
            for number, each in enumerate(vcpus)
        ]
    )


@pytest.mark.parametrize(
    ("shares", "order"),
    [((3, 1), [0, 0, 1, 0] * 2), ((1,), [0] * 8), ((1, 1), [0, 1] * 4), ((1, 3), [1, 0, 1, 1] * 2)],
)
def test_the_order_follows_from_the_shares(shares: tuple[int, ...], order: list[int]) -> None:
    assert list(islice(in_order(shares), 8)) == order


def test_the_count_stops_at_the_first_refusal() -> None:
    found = mix_capacity(table(9), [Part(SMALL, 3), Part(LARGE, 1)], Engine())
    assert found.fits == (5, 1)
    assert found.refused == 1
    assert found.placed.tolist() == [6]


def test_other_requests_may_still_fit() -> None:
    found = mix_capacity(table(7), [Part(SMALL, 1), Part(LARGE, 1)], Engine())
    assert found.fits == (2, 1)
    assert found.refused == 1
    assert found.reasons == (Hindrance("Placement: VCPU", "cannot give 4 VCPU", 1),)


def test_a_request_that_the_api_refuses_ends_the_mix() -> None:
    refusal = Hindrance("request", "no such guest", 0)
    found = mix_capacity(table(7), [Part(SMALL, 2), Part(LARGE, 1, refusal)], Engine())
    assert found.fits == (1, 0)
    assert (found.refused, found.reasons, found.last) == (1, (refusal,), None)


def test_a_mix_without_resources_has_no_limit() -> None:
    found = mix_capacity(table(1), [Part(NOTHING, 1)], Engine())
    assert (found.fits, found.refused, found.reasons) == (None, None, ())


def test_the_computation_can_be_stopped() -> None:
    def stop() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        mix_capacity(table(9), [Part(SMALL, 1)], Engine(), check=stop)
