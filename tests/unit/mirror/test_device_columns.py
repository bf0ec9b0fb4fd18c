# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.small_devices import cell, gpus

from kilonova.mirror.device_columns import DeviceColumns
from kilonova.model.host_devices import DeviceShare, HostDevices

IDLE = HostDevices((cell(0),), (gpus(0, 2, None),))
GPU = DeviceShare(devices=((0, 1),))


def test_claims_under_way_count_until_they_are_taken_back() -> None:
    columns = DeviceColumns()
    columns.set("node", IDLE)
    idle = columns.number("node")
    columns.assume("node", "claim 1", GPU)
    columns.assume("node", "claim 2", GPU)
    assert columns.states[columns.number("node")].pools[0].free == 0
    columns.forget("node", "claim 1")
    assert columns.states[columns.number("node")].pools[0].free == 1
    columns.forget("node", "claim 2")
    columns.forget("node", "unknown")
    assert columns.number("node") == idle


def test_a_host_without_devices_has_the_number_0() -> None:
    columns = DeviceColumns()
    assert columns.numbers(["a", "b"]).tolist() == [0, 0]
    columns.set("b", IDLE)
    assert columns.numbers(["a", "b"]).tolist()[0] == 0
    columns.set("b", None)
    assert columns.number("b") == 0


def test_states_of_the_past_are_dropped_when_they_are_most() -> None:
    columns = DeviceColumns()
    for used in range(6000):
        columns.set("a", HostDevices((), (gpus(0, 9000, None, used=used),)))
        columns.number("a")
    assert columns.has_too_many_states(1)
    assert len(columns.states) == 6001
    (number,) = columns.numbers(["a"]).tolist()
    assert len(columns.states) == 2
    assert not columns.has_too_many_states(1)
    assert columns.states[number].pools[0].used == 5999
