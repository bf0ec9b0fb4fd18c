# SPDX-License-Identifier: Apache-2.0
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from kilonova.cli.wiring.rules import build_engine
from kilonova.conductor.workflow_engine.run import UNREACHABLE
from kilonova.db import aggregates, compute_nodes, provider_traits, providers, services
from kilonova.db.core.transaction import Transaction
from kilonova.errors import DriverError
from kilonova.messaging.messages import ConductorMessage, DestroyGuest, SpawnGuest, StepReply
from kilonova.model.flavor import Flavor
from kilonova.model.instance import PowerState, VmState
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.settings import SchedulerConfig
from support.cell import IMAGE, SMALL, NewCell, host
from support.manual_bus import ManualBus

HUGE = Flavor("9", "huge", vcpus=4096, memory_mib=512, root_gib=1)


def test_a_server_is_built(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).host) == (VmState.BUILDING, None)
    cell.bus.run()
    instance = cell.instance(uuid)
    assert (instance.vm_state, instance.host, instance.node) == (VmState.ACTIVE, "node1", "node1")
    assert (instance.power_state, instance.launched_at is not None) == (PowerState.RUNNING, True)
    assert cell.check() == {uuid: "active"}


def test_failed_builds_count_against_their_host_unless_an_operator_says_otherwise(cell_of: NewCell) -> None:
    for counts, expected in ((True, 1), (False, 0)):
        cell = cell_of(host("node1", failing_spawns=1), max_attempts=1, counts_failed_builds=counts)
        cell.boot()
        cell.bus.run()
        assert cell.failed_builds() == {"node1": expected}


def test_the_guest_gets_what_the_request_said(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    cell.bus.run()
    (message,) = cell.bus.sent
    assert isinstance(message, SpawnGuest)
    assert (message.guest.uuid, message.guest.vcpus, message.guest.memory_mib) == (uuid, 1, 512)
    assert message.guest.name == cell.instance(uuid).instance_name == "instance-00000001"


def test_servers_of_one_request_are_placed_together_or_not_at_all(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), host("node2"))
    many = cell.boot(9)
    cell.bus.run()
    assert set(cell.check().values()) == {"error"}
    fault = cell.instance(many[0]).fault
    assert fault is not None
    assert fault.message.startswith("No valid host was found for server 9 of 9. ")
    fitting = cell.boot(8)
    cell.bus.run()
    assert {uuid: state for uuid, state in cell.check().items() if state == "active"} == dict.fromkeys(
        fitting, "active"
    )


def test_no_host_at_all_says_so(cell_of: NewCell) -> None:
    cell = cell_of()
    (uuid,) = cell.boot()
    cell.bus.run()
    fault = cell.instance(uuid).fault
    assert fault is not None
    assert fault.message == "No valid host was found. There are no hosts."
    assert fault.code == 500
    cell.check()


def test_a_server_that_fits_nowhere_says_which_rule_removed_how_many(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), host("node2"))
    (uuid,) = cell.boot(flavor=HUGE)
    cell.bus.run()
    fault = cell.instance(uuid).fault
    assert fault is not None
    assert "2 of 2 hosts" in fault.message
    assert "node" not in fault.message
    cell.check()


def test_a_failed_spawn_goes_to_another_host(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", failing_spawns=1), host("node2"), host("node3"))
    (uuid,) = cell.boot()
    cell.bus.run()
    assert cell.check() == {uuid: "active"}
    assert cell.instance(uuid).host != "node1"
    assert cell.failed_builds() == {"node1": 1, "node2": 0, "node3": 0}


def test_a_guest_that_a_host_cannot_make_does_not_count_against_it(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", models={"hw_vif_model": ("virtio",)}), host("node2", vcpus=2, memory_mib=2048))
    (moved,) = cell.boot(image=replace(IMAGE, properties={"hw_vif_model": "e1000"}))
    cell.bus.run()
    assert (cell.instance(moved).vm_state, cell.instance(moved).host) == (VmState.ACTIVE, "node2")
    assert cell.failed_builds()["node1"] == 0
    (impossible,) = cell.boot(image=replace(IMAGE, properties={"hw_vif_model": "e1000"}), force_host="node1")
    cell.bus.run()
    assert cell.check()[impossible] == "error"
    assert cell.failed_builds()["node1"] == 0


def test_the_fault_of_a_failed_spawn_survives_a_restart(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", models={"hw_vif_model": ("virtio",)}))
    (uuid,) = cell.boot(image=replace(IMAGE, properties={"hw_vif_model": "e1000"}))
    while not any(isinstance(message, DestroyGuest) for message in cell.bus.sent):
        cell.bus.step()
    again = cell.restart()
    again.bus.run()
    assert again.check() == {uuid: "error"}
    assert again.failed_builds() == {"node1": 0}


def test_one_success_clears_the_count_of_failed_builds(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", failing_spawns=1))
    cell.boot()
    cell.bus.run()
    assert cell.failed_builds() == {"node1": 1}
    (uuid,) = cell.boot()
    cell.bus.run()
    assert cell.instance(uuid).vm_state is VmState.ACTIVE
    assert cell.failed_builds() == {"node1": 0}


def test_attempts_end_and_the_fault_says_why(cell_of: NewCell) -> None:
    cell = cell_of(*(host(f"node{n}", failing_spawns=-1) for n in range(1, 6)))
    (uuid,) = cell.boot()
    cell.bus.run()
    assert cell.check() == {uuid: "error"}
    assert sum(cell.failed_builds().values()) == 3
    fault = cell.instance(uuid).fault
    assert fault is not None
    assert fault.message.startswith("Exceeded maximum number of retries.")
    assert "Simulated failure" in fault.message
    assert "node" not in fault.message, "tenants never learn host names"
    assert "Hosts tried: node1, node2, node3" in fault.details


def test_fewer_hosts_than_attempts_end_in_no_valid_host(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", failing_spawns=-1), host("node2", failing_spawns=-1))
    (uuid,) = cell.boot()
    cell.bus.run()
    fault = cell.instance(uuid).fault
    assert fault is not None
    assert fault.message.startswith("No valid host was found.")
    assert "after a failed build: Simulated failure" in fault.message
    cell.check()


@pytest.mark.parametrize("asked", [{"force_host": "node1"}, {"force_node": "node1"}])
def test_a_forced_host_is_not_left(cell_of: NewCell, asked: dict[str, Any]) -> None:
    cell = cell_of(host("node1", failing_spawns=1), host("node2"))
    (uuid,) = cell.boot(**asked)
    cell.bus.run()
    assert cell.check() == {uuid: "error"}
    fault = cell.instance(uuid).fault
    assert fault is not None
    assert "Simulated failure" in fault.message


def test_one_attempt_means_no_second(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", failing_spawns=1), host("node2"), max_attempts=1)
    (uuid,) = cell.boot()
    cell.bus.run()
    assert cell.check() == {uuid: "error"}


def test_an_unreachable_host_is_passed_over(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), host("node2"))
    cell.bus.cut_off = {"node1"}
    found = [uuid for _ in range(4) for uuid in cell.boot()]
    cell.bus.run()
    assert {cell.instance(uuid).host for uuid in found} == {"node2"}
    assert set(cell.check().values()) == {"active"}


@pytest.mark.parametrize("is_back", [False, True], ids=["stays away", "comes back"])
def test_a_server_goes_to_no_second_host_while_the_first_may_have_its_guest(cell_of: NewCell, *, is_back: bool) -> None:
    cell = cell_of(host("node1"), host("node2"))
    (uuid,) = cell.boot()
    while not any(driver.list_guests() for driver in cell.drivers.values()):
        assert cell.bus.step()
    (order,) = cell.bus.sent
    first = cell.instance(uuid).host
    assert first is not None
    cell.bus.cut_off = set() if is_back else {first}
    cell.conductor.handle(StepReply(order.step, first, uuid, UNREACHABLE, "The agent answers no questions."))
    cell.bus.run()
    has_guest = {name for name, driver in cell.drivers.items() if uuid in driver.list_guests()}
    server = cell.instance(uuid)
    if is_back:  # and has told that it is clean
        assert (server.vm_state, server.host) == (VmState.ACTIVE, *has_guest)
        assert server.host != first
        return
    assert (server.vm_state, server.host) == (VmState.ERROR, None)
    assert has_guest == {first}
    assert server.fault is not None
    assert server.fault.message == UNREACHABLE
    again = cell.restart()
    again.bus.run()
    assert again.check() == {uuid: "error"}
    assert again.drivers[first].list_guests() == {}


def test_an_anti_affinity_group_keeps_its_word_through_failures(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", failing_spawns=1), host("node2"), host("node3", failing_spawns=1), host("node4"))
    group = cell.add_group("anti-affinity")
    found = cell.boot(2, group=group)
    cell.bus.run()
    cell.check()
    assert len({cell.instance(uuid).host for uuid in found}) == 2


def test_a_driver_that_breaks_in_an_unknown_way_names_nothing_to_the_tenant(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))

    def explode(_: object) -> None:
        raise RuntimeError("secret of node1")

    cell.drivers["node1"].spawn = explode
    (uuid,) = cell.boot()
    cell.bus.run()
    fault = cell.instance(uuid).fault
    assert fault is not None
    assert "secret" not in fault.message
    assert cell.check() == {uuid: "error"}


class BrokenEngine:
    takes_chances = False

    def decide(self, *_: object, **__: object) -> Decision:
        raise ZeroDivisionError("at /srv/rules on node1")


def test_an_engine_that_breaks_leaves_an_error_without_the_story(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), engine=BrokenEngine())
    (uuid,) = cell.boot()
    cell.bus.run()
    fault = cell.instance(uuid).fault
    assert fault is not None
    assert fault.message == "Scheduling failed."
    assert "ZeroDivisionError" in fault.details
    cell.check()


class SlowToTell(ManualBus):
    """Keeps replies back until asked."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[ConductorMessage] = []

    def tell(self, message: ConductorMessage, *, urgent: bool = False) -> None:
        self.kept.append(message)

    def let_go(self) -> None:
        kept, self.kept = self.kept, []
        for message in kept:
            super().tell(message)


def test_a_reply_that_comes_after_the_delete_leaves_no_guest(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"), bus=SlowToTell())
    (uuid,) = cell.boot()
    cell.bus.run()
    cell.delete(uuid)
    cell.bus.run()
    cell.bus.let_go()
    cell.bus.run()
    cell.bus.let_go()
    cell.bus.run()
    assert cell.find(uuid) is None
    assert cell.check() == {}


def test_the_reply_of_an_earlier_attempt_changes_nothing(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", failing_spawns=1), host("node2"))
    (uuid,) = cell.boot()
    cell.bus.run()
    late = cell.bus.replies[:]
    for reply in late * 2:
        cell.conductor.handle(reply)
    cell.bus.run()
    assert cell.check() == {uuid: "active"}


def test_one_reply_that_comes_eight_times_at_once_is_acted_on_once(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", failing_spawns=1), host("node2"), bus=SlowToTell())
    (uuid,) = cell.boot()
    cell.bus.run()
    (reply,) = cell.bus.kept
    cell.bus.kept = []
    start = threading.Barrier(8)

    def deliver(_: int) -> None:
        start.wait(30)
        cell.conductor.handle(reply)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(deliver, range(8)))
    assert [type(message) for message in cell.bus.sent].count(DestroyGuest) == 1
    for _ in range(6):
        cell.bus.run()
        cell.bus.let_go()
    assert cell.check() == {uuid: "active"}


def test_a_step_that_breaks_is_tried_again_as_the_journal_has_it(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    calls = []
    send = cell.bus.cast

    def cast(name: str, message: object) -> None:
        calls.append(message)
        if len(calls) == 1:
            raise OSError("out of memory")
        send(name, message)

    cell.bus.cast = cast
    (uuid,) = cell.boot()
    cell.bus.run()
    assert cell.instance(uuid).vm_state is VmState.BUILDING
    cell.conductor.runner.retry_broken()
    cell.bus.run()
    assert cell.check() == {uuid: "active"}


def test_remains_that_cannot_be_destroyed_do_not_hold_the_server_up(cell_of: NewCell) -> None:
    cell = cell_of(host("node1", failing_spawns=1), host("node2"))

    def refuse(_: str) -> None:
        raise DriverError("The disk is busy.")

    cell.drivers["node1"].destroy = refuse
    (uuid,) = cell.boot()
    cell.bus.run()
    assert cell.check() == {uuid: "active"}


def test_guests_of_deleted_servers_found_at_start_are_destroyed(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    cell.bus.run()
    spawn = cell.bus.sent[0].guest
    (gone,) = cell.boot()
    cell.bus.run()
    cell.delete(gone)
    cell.bus.run()
    cell.drivers["node1"].spawn(replace(spawn, uuid=gone))
    again = cell.restart()
    assert again.check() == {uuid: "active"}
    again.database.close()


def test_a_hypervisor_that_comes_late_joins_the_aggregates_and_the_disabled_state_of_its_host(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))

    def job(tx: Transaction) -> str:
        aggregate = aggregates.create(tx, "a", None)
        aggregates.add_host(tx, aggregate.id, "node1", default_zone="nova")
        service = services.get_by_host(tx.connection, "node1")
        services.update(tx, service.uuid, disabled=True)
        return aggregate.uuid

    aggregate_uuid = cell.database.write(job)
    later = cell.restart(node="second")
    with later.database.read() as connection:
        node = next(n for n in compute_nodes.list_all(connection) if n.hypervisor_hostname == "second")
        provider = providers.get(connection, node.uuid)
        assert providers.aggregate_uuids(connection, provider.id) == [aggregate_uuid]
        assert "COMPUTE_STATUS_DISABLED" in {word.name for word in provider_traits.of_provider(connection, provider.id)}
    later.database.close()


@pytest.mark.parametrize(
    ("policy", "config", "needed"),
    [
        ("affinity", SchedulerConfig(enabled_filters=("ServerGroupAntiAffinityFilter",)), "ServerGroupAffinityFilter"),
        ("anti-affinity", SchedulerConfig(enabled_filters=()), "ServerGroupAntiAffinityFilter"),
        ("soft-affinity", SchedulerConfig(weight_classes=()), "ServerGroupSoftAffinityWeigher"),
        ("soft-anti-affinity", SchedulerConfig(weight_classes=()), "ServerGroupSoftAntiAffinityWeigher"),
    ],
)
def test_a_group_needs_the_rule_of_its_policy(
    cell_of: NewCell, policy: str, config: SchedulerConfig, needed: str
) -> None:
    cell = cell_of(host("node1"), engine=build_engine(config))
    (grouped,) = cell.boot(group=cell.add_group(policy))
    (plain,) = cell.boot()
    cell.bus.run()
    assert cell.check() == {grouped: "error", plain: "active"}
    fault = cell.instance(grouped).fault
    assert fault is not None
    assert fault.message == f"ServerGroup policy is not supported: {needed} not configured"


def test_what_is_on_a_host_counts_from_the_claim_to_the_delete(cell_of: NewCell) -> None:
    """With at most one flavor a host, a host takes another flavor once its servers are gone."""
    config = SchedulerConfig(enabled_filters=("TypeAffinityFilter",))
    cell = cell_of(host("node1"), engine=build_engine(config))
    other = replace(SMALL, flavor_id="2", name="m1.other")
    small = cell.boot(2)
    (refused,) = cell.boot(flavor=other)
    cell.bus.run()
    fault = cell.instance(refused).fault
    assert fault is not None
    assert fault.message == "No valid host was found. TypeAffinityFilter: 1 of 1 hosts"
    for uuid in (*small, refused):
        cell.delete(uuid)
    cell.bus.run()
    (welcome,) = cell.boot(flavor=other)
    cell.bus.run()
    assert cell.check() == {welcome: "active"}


def test_what_a_hypervisor_measures_reaches_the_rules(cell_of: NewCell) -> None:
    config = SchedulerConfig(
        enabled_filters=("MetricsFilter",), metrics_weight_setting=("power=-10.0",), metrics_weight_multiplier=100.0
    )
    hosts = [host("hot", metrics={"power": 300.0}), host("cool", metrics={"power": 90.0}), host("unmeasured")]
    cell = cell_of(*hosts, engine=build_engine(config))
    uuids = cell.boot(4)
    cell.bus.run()
    cell.check()
    assert [cell.instance(uuid).host for uuid in uuids] == ["cool"] * 4
    (last,) = cell.boot()
    cell.bus.run()
    assert cell.instance(last).host == "hot"
