# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tests.unit.scheduler.small_cloud import flavor, host, request, table

from kilonova.scheduler.guests import GuestTally, guest_kind, guest_of

UBUNTU = guest_kind("1", {"os_distro": "ubuntu", "os_version": "24.04"})
PLAIN = guest_kind("2", {})


def test_kinds_are_equal_when_no_rule_could_tell_them_apart() -> None:
    assert guest_kind("1", {"architecture": "amd64", "a": 1}) == guest_kind(
        "1", {"a": "1", "hw_architecture": "x86_64"}
    )
    assert guest_kind("1", {"vm_mode": "xen", "hw_vm_mode": "hvm"}).image_properties == (("hw_vm_mode", "hvm"),)
    assert guest_kind("1", {}) != guest_kind("2", {})


def test_columns_stay_in_step_from_the_first_question_on() -> None:
    tally = GuestTally()
    tally.add("a", UBUNTU, 2)
    tally.add("elsewhere", UBUNTU, 1)
    rows = {"a": 0, "b": 1}
    columns = tally.columns(rows)
    before = columns.with_image_property("os_distro", "ubuntu")
    assert before.tolist() == [2, 0]
    assert columns.of_other_flavors("2").tolist() == [2, 0]
    tally.add("b", PLAIN, 3)
    tally.add("b", UBUNTU, 1)
    tally.add("a", UBUNTU, -1)
    tally.add("elsewhere", UBUNTU, -1)
    assert tally.columns(rows) is columns
    assert columns.with_image_property("os_distro", "ubuntu").tolist() == [1, 1]
    assert columns.of_other_flavors("2").tolist() == [1, 1]
    assert columns.of_other_flavors("1").tolist() == [0, 3]
    assert before.tolist() == [2, 0], "what was handed out does not change"


def test_other_rows_are_other_columns() -> None:
    tally = GuestTally()
    tally.add("a", UBUNTU, 2)
    first = tally.columns({"a": 0, "b": 1})
    assert first.of_other_flavors("x").tolist() == [2, 0]
    assert tally.columns({"b": 0, "a": 1}).of_other_flavors("x").tolist() == [0, 2]


def test_few_columns_are_kept_and_all_are_right() -> None:
    tally = GuestTally()
    rows = {"a": 0}
    for number in range(600):
        tally.add("a", guest_kind(str(number), {"n": str(number)}), 1)
    columns = tally.columns(rows)
    for _ in range(2):
        for number in range(600):
            assert columns.of_other_flavors(str(number)).tolist() == [599]
            assert columns.with_image_property("n", str(number)).tolist() == [1]
    assert len(columns._by_flavor) == len(columns._by_property) == 256


def test_what_a_request_asks_for_is_a_kind() -> None:
    asked = request(properties={"os_distro": "ubuntu"}, flavor=flavor(flavor_id="7"))
    assert guest_of(asked) == guest_kind("7", {"os_distro": "ubuntu"})
    assert guest_of(request()) == guest_kind("1", {})


def test_some_rows_of_a_table_count_as_the_whole_table_does() -> None:
    hosts = table(host("a", guests=(UBUNTU,)), host("b"), host("c", guests=(PLAIN, PLAIN)))
    part = hosts.take(np.array([2, 0]))
    again = part.take(np.array([1]))
    assert part.guests.of_other_flavors("1").tolist() == [2, 0]
    assert part.guests.with_image_property("os_distro", "ubuntu").tolist() == [0, 1]
    assert again.guests.with_image_property("os_distro", "ubuntu").tolist() == [1]
    hosts.count_server(0, {}, UBUNTU)
    again.guests.count(0, UBUNTU)
    assert hosts.guests.with_image_property("os_distro", "ubuntu").tolist() == [3, 0, 0]
    assert again.guests.of_other_flavors("x").tolist() == [3]


def test_metrics_and_cells_go_with_their_rows() -> None:
    hosts = table(host("a", metrics={"cpu": 1.0}, cell_uuid="c1"), host("b", metrics={"cpu": 2.0}, cell_uuid="c2"))
    part = hosts.take(np.array([1]))
    assert (part.metric("cpu").tolist(), part.cell_uuids) == ([2.0], ("c2",))
    assert table(host("a")).take(np.array([0])).cell_uuids == ()
