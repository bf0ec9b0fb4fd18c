# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np
from tests.unit.scheduler.small_devices import cell, gpus

from kilonova.model.host_devices import NOTHING, HostDevices
from kilonova.scheduler.device_states import DeviceStates, shape_of

ONE = HostDevices((cell(0),), (gpus(0, 3, 0, used=1),))


def pinned(*cpus: int) -> HostDevices:
    return replace(ONE, cells=(cell(0, pinned=frozenset(cpus)),))


def test_states_that_differ_only_in_which_cpus_are_taken_have_one_shape() -> None:
    assert shape_of(pinned(0, 1)) == shape_of(pinned(6, 7))
    assert shape_of(pinned(0, 1)) != shape_of(pinned(0, 2)), "two cores are broken instead of one"
    assert shape_of(pinned(0, 1)) != shape_of(pinned(0, 1, 2))
    assert shape_of(ONE) != shape_of(replace(ONE, pools=()))


def test_equal_states_have_one_number_and_the_first_is_the_host_without_devices() -> None:
    states = DeviceStates()
    assert states.number(NOTHING) == 0
    first = states.number(pinned(0, 1))
    assert states.number(pinned(0, 1)) == first
    assert states.number(pinned(6, 7)) == first + 1
    assert len(states) == 3
    assert states[first] == pinned(0, 1)
    assert states.shapes(np.array([0, first, first + 1], dtype=np.int32)).tolist() == [0, 1, 1]


def test_a_copy_may_number_more_states_on_its_own() -> None:
    states = DeviceStates()
    states.copy().number(ONE)
    assert len(states) == 1


def test_summaries_have_the_most_of_any_cell_and_all_free_devices() -> None:
    states = DeviceStates()
    states.number(HostDevices((cell(0, pinned=frozenset({0})), cell(1, memory_mib=99)), ONE.pools))
    summaries = states.summaries()
    assert (summaries.cells[1], summaries.free_pcpus[1], summaries.cell_free_pcpus[1]) == (2, 15, 8)
    assert (summaries.cell_cpus[1], summaries.cell_memory_mib[1], summaries.devices[1]) == (2, 8192, 2)
    assert summaries.cells[0] == summaries.devices[0] == 0


def test_each_possible_shape_is_judged_once_for_a_question() -> None:
    states, judged = DeviceStates(), []
    numbers = [states.number(each) for each in (pinned(0, 1), pinned(6, 7), pinned(0, 2))]
    shapes = states.shapes(np.array([0, *numbers], dtype=np.int32))
    possible = np.array([False, True, True])

    def judge(devices: HostDevices) -> bool:
        judged.append(devices)
        return devices == pinned(0, 1)

    for _ in range(2):
        assert states.verdicts("question", shapes, possible, judge).tolist() == [False, True, True, False]
    assert len(judged) == 2
    states.number(pinned(0, 1, 2))
    assert states.verdicts("question", shapes, np.append(possible, True), judge).tolist()[1:] == [True, True, False]
    assert len(judged) == 2, "no host has the new shape"
