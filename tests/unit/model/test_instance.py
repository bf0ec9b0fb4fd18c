# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.db import flavors, request_specs
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.instance import Instance, TaskState, VmState, is_io_heavy, states_of, status_of
from kilonova.model.provider import Inventory, floored_capacity
from kilonova.model.request_spec import RequestedNetwork, RequestSpec

STATUS = [
    (VmState.ACTIVE, None, "ACTIVE"),
    (VmState.ACTIVE, TaskState.REBOOT_PENDING, "REBOOT"),
    (VmState.ACTIVE, TaskState.REBOOT_STARTED_HARD, "HARD_REBOOT"),
    (VmState.ACTIVE, TaskState.UPDATING_PASSWORD, "PASSWORD"),
    (VmState.ACTIVE, TaskState.REBUILD_SPAWNING, "REBUILD"),
    (VmState.ACTIVE, TaskState.MIGRATING, "MIGRATING"),
    (VmState.ACTIVE, TaskState.RESIZE_PREP, "RESIZE"),
    (VmState.ACTIVE, TaskState.DELETING, "ACTIVE"),
    (VmState.BUILDING, TaskState.SPAWNING, "BUILD"),
    (VmState.STOPPED, None, "SHUTOFF"),
    (VmState.STOPPED, TaskState.RESIZE_FINISH, "RESIZE"),
    (VmState.STOPPED, TaskState.REBUILDING, "REBUILD"),
    (VmState.RESIZED, None, "VERIFY_RESIZE"),
    (VmState.RESIZED, TaskState.RESIZE_REVERTING, "REVERT_RESIZE"),
    (VmState.PAUSED, TaskState.MIGRATING, "MIGRATING"),
    (VmState.ERROR, TaskState.REBUILDING, "REBUILD"),
    (VmState.SOFT_DELETED, None, "SOFT_DELETED"),
    (VmState.SHELVED_OFFLOADED, None, "SHELVED_OFFLOADED"),
]


@pytest.mark.parametrize(("vm_state", "task_state", "status"), STATUS)
def test_status(vm_state: VmState, task_state: TaskState | None, status: str) -> None:
    assert status_of(vm_state, task_state) == status


def test_every_state_has_exactly_one_status_and_is_found_by_it() -> None:
    tasks: list[TaskState | None] = [None, *TaskState]
    for vm_state in VmState:
        for task in tasks:
            found = dict(states_of(status_of(vm_state, task).lower()))
            assert task in found[vm_state]
    assert states_of("NONSENSE") == ()
    assert len(TaskState) == 42


def test_instance_names_are_their_number_in_hex() -> None:
    instance = Instance(255, "u", "n", "p", "u", VmState.BUILDING, Flavor("1", "f", 1, 1, 1))
    assert instance.instance_name == "instance-000000ff"


@pytest.mark.parametrize(
    ("vm_state", "task_state", "heavy"),
    [("building", None, True), ("active", "rebuilding", True), ("active", "rebooting", False), ("active", None, False)],
)
def test_what_counts_in_the_io_workload(vm_state: str, task_state: str | None, heavy: bool) -> None:
    assert is_io_heavy(vm_state, task_state) is heavy


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.floats(0.01, 1000, allow_nan=False))
def test_capacity_is_rounded_down(total: int, reserved: int, ratio: float) -> None:
    capacity = floored_capacity(total, reserved, ratio)
    assert capacity <= (total - reserved) * ratio < capacity + 1
    assert Inventory("VCPU", total, reserved, allocation_ratio=ratio).capacity == capacity


TEXT = st.text(max_size=8)
FLAVORS = st.builds(
    Flavor,
    flavor_id=TEXT,
    name=TEXT,
    vcpus=st.integers(1, 9),
    memory_mib=st.integers(1, 9),
    root_gib=st.integers(0, 9),
    extra_specs=st.dictionaries(TEXT, TEXT, max_size=3),
)
SPECS = st.builds(
    RequestSpec,
    flavor=FLAVORS,
    image=st.none() | st.builds(Image, id=TEXT, name=TEXT, properties=st.dictionaries(TEXT, TEXT, max_size=3)),
    project_id=TEXT,
    user_id=TEXT,
    request_id=TEXT,
    availability_zone=st.none() | TEXT,
    hints=st.dictionaries(TEXT, st.lists(TEXT, max_size=2).map(tuple), max_size=2),
    force_host=st.none() | TEXT,
    requested_node=st.none() | TEXT,
    ignore_hosts=st.frozensets(TEXT, max_size=2),
    networks=st.lists(
        st.builds(
            RequestedNetwork,
            network_id=TEXT,
            vnic_type=TEXT,
            segments=st.lists(st.frozensets(TEXT, max_size=2), max_size=2).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
)


@given(FLAVORS)
def test_a_flavor_comes_back_as_it_was_stored(flavor: Flavor) -> None:
    assert flavors.from_json(flavors.as_json(flavor)) == flavor


@given(SPECS, st.none() | TEXT)
def test_a_request_comes_back_as_it_was_stored(spec: RequestSpec, group: str | None) -> None:
    assert request_specs.from_json(request_specs.as_json(spec, group)) == (spec, group)


@given(SPECS)
def test_a_request_that_was_stored_before_networks_were_has_none(spec: RequestSpec) -> None:
    body = request_specs.as_json(spec, None)
    del body["networks"]
    assert request_specs.from_json(body)[0] == replace(spec, networks=())
