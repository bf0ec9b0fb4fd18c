# SPDX-License-Identifier: Apache-2.0
"""Drivers from outside: what they choose is claimed, and whatever else they do fails one request and nothing more."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.unit.scheduler.small_cloud import flavor, host, request, table

from kilonova.claims import outside_driver
from kilonova.claims.claimer import Placed
from kilonova.claims.outside_driver import Answer, OutsideDriver
from kilonova.db import aggregates, decisions, instances
from kilonova.db.core.transaction import Transaction
from kilonova.errors import NoValidHost, RequestFilterFailed, RuleFailed, Unavailable
from kilonova.messaging.local import LocalBus
from kilonova.model.aggregate import Aggregate
from kilonova.model.host import Capabilities
from kilonova.model.server_group import GroupView
from kilonova.model.server_migration import MoveKind
from kilonova.scheduler.decision import SURVIVED, RuleCount
from kilonova.scheduler.driver import FilterScheduler, Scheduler
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.resources import with_resources
from support.cell import NewCell
from support.cell import host as simulated
from support.orders import hosts_of, order
from support.world import check_books

EXAMPLES = str(Path(__file__).parents[3] / "examples")
HOSTS = table(host("doc1"), host("ops1"), host("ops1", node="second", uuid="second"), host("dev1"))


class Scripted(Scheduler):
    """Does what the test says. ``asked``: the filter properties it was asked with."""

    def __init__(self, act: Callable[..., Any]) -> None:
        super().__init__()
        self._act = act
        self.asked: list[Any] = []

    def select_destinations(self, context: Any, request_spec: Any, filter_properties: Any) -> Any:
        self.asked.append(filter_properties)
        return self._act(context, request_spec, filter_properties)


def says(*names: str) -> Callable[..., Any]:
    return lambda *_: [{"host": name, "nodename": None, "limits": None} for name in names]


def raises(error: BaseException) -> Callable[..., Any]:
    def act(*_: Any) -> None:
        raise error

    return act


def spec_for(count: int = 1, **changes: Any) -> Any:
    return with_resources(request(instance_uuids=tuple(f"i{n}" for n in range(count)), **changes))


def outside(act: Callable[..., Any], **options: Any) -> OutsideDriver:
    return OutsideDriver(Scripted(act), Engine(), **options)


def refusal(answer: Answer, spec: Any = None) -> str:
    decision = answer.decide(HOSTS)
    assert decision.ranked == ()
    assert decision.survivors == 0
    assert not decision.removed_by.any()
    (step,) = decision.steps
    assert (step.rule, step.hosts_in, step.hosts_out) == ("Scripted", 4, 0)
    assert decision.refusal is not None
    return decision.refusal


def test_a_choice_is_a_decision_with_one_step_that_names_the_driver() -> None:
    act = says("dev1", "ops1")
    answer = outside(act).answer(spec_for(2), HOSTS)
    first, second = (answer.decide(HOSTS) for _ in range(2))
    assert first.steps == (RuleCount("Scripted", "not the host that the driver chose", 4, 1),)
    assert (first.ranked[0].host, first.ranked[0].row, first.survivors) == ("dev1", 3, 1)
    assert first.removed_by.tolist() == [0, 0, 0, SURVIVED]
    assert (second.ranked[0].host, second.ranked[0].node) == ("ops1", "ops1")
    assert first.refusal is second.refusal is None


def test_a_node_may_be_named() -> None:
    answer = outside(lambda *_: [{"host": "ops1", "nodename": "second"}]).answer(spec_for(), HOSTS)
    assert answer.decide(HOSTS).ranked[0].uuid == "second"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (None, "a list was expected, not NoneType"),
        ("doc1", "a list was expected, not str"),
        ({"host": "doc1"}, "a list was expected, not dict"),
        ([], "the driver named 0 of 1 hosts"),
        ([{"host": "doc1"}] * 2, "the driver named 2 hosts for 1 servers"),
        (["doc1"], "a destination must be a dict, not str"),
        ([[{"host": "doc1"}]], "a destination must be a dict, not list"),
        ([("doc1", None, None)], "a destination must be a dict, not tuple"),
        ([{}], "a destination must name a host"),
        ([{"host": 1}], "a destination must name a host"),
        ([{"host": "doc1", "nodename": 3}], "a destination must name a host"),
        ([{"host": "nowhere"}], "there is no such host"),
        ([{"host": "DOC1"}], "there is no such host"),
        ([{"host": "doc1", "nodename": "second"}], "there is no such host"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_the_driver_and_names_no_host(said: Any, words: str) -> None:
    text = refusal(outside(lambda *_: said).answer(spec_for(), HOSTS))
    assert text.startswith("Scheduler driver Scripted returned an invalid answer: ")
    assert words in text
    assert "doc1" not in text
    assert "nowhere" not in text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("secret"), "Scheduler driver Scripted failed: it raised KeyError."),
        (SystemExit(1), "Scheduler driver Scripted failed: it raised SystemExit."),
        (NotImplementedError(), "Scheduler driver Scripted failed: it raised NotImplementedError."),
        (
            NoValidHost(reason="Could not find another compute"),
            "No valid host was found. Could not find another compute",
        ),
        (NoValidHost(reason=""), "No valid host was found."),
        (RuleFailed("Filter X failed."), "Filter X failed."),
    ],
)
def test_what_a_driver_raises_becomes_the_refusal(error: BaseException, text: str) -> None:
    assert refusal(outside(raises(error)).answer(spec_for(), HOSTS)) == text


def test_a_driver_that_hangs_is_given_up() -> None:
    release = threading.Event()
    driver = outside(lambda *_: release.wait(30), timeout_s=0.1)
    began = time.monotonic()
    text = refusal(driver.answer(spec_for(), HOSTS))
    assert text == "Scheduler driver Scripted did not answer within 0.1 s."
    assert time.monotonic() - began < 10
    release.set()


def test_no_more_threads_than_so_many_are_left_hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside_driver, "_MOST_ABANDONED", 2)
    release = threading.Event()

    def act(*_: Any) -> Any:
        release.wait(30)
        return says("doc1")()

    driver = outside(act, timeout_s=0.05)
    texts = [refusal(driver.answer(spec_for(), HOSTS)) for _ in range(3)]
    assert texts[2] == "Scheduler driver Scripted is busy with 2 earlier requests."
    release.set()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            decided = driver.answer(spec_for(), HOSTS).decide(HOSTS)
        finally:
            time.sleep(0.01)
        if decided.ranked:
            return
    raise AssertionError("the driver is never asked again")


def test_a_process_that_stops_waits_for_no_driver() -> None:
    asked, release = threading.Event(), threading.Event()

    def act(*_: Any) -> None:
        asked.set()
        release.wait(30)

    driver = outside(act)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(driver.answer, spec_for(), HOSTS)
        assert asked.wait(10)
        driver.close()
        with pytest.raises(Unavailable):
            waiting.result(10)
    with pytest.raises(Unavailable):
        driver.answer(spec_for(), HOSTS)
    release.set()


def test_a_driver_that_names_full_hosts_is_asked_again_and_told_which() -> None:
    big = spec_for(flavor=flavor(vcpus=33))
    scripted = Scripted(says("doc1"))
    answer = OutsideDriver(scripted, Engine(), max_attempts=2).answer(big, HOSTS)
    decision = answer.decide(HOSTS)
    assert decision.refusal == "Scheduler driver Scripted chose no host that can take the server."
    assert decision.steps[0].reason == "chose doc1 (cannot give 33 VCPU)"
    assert [asked["ignore_hosts"] for asked in scripted.asked] == [[], ["doc1"]]
    assert scripted.asked[1]["retry"]["hosts"] == [["doc1", None]]

    def second_try(_: Any, __: Any, properties: Any) -> Any:
        return says("dev1" if properties["retry"] else "ops1")()

    full = replace(HOSTS, used=HOSTS.used.copy())
    full.used[1] = full.capacity[1]
    assert outside(second_try).answer(spec_for(), full).decide(full).ranked[0].host == "dev1"


def test_servers_of_one_request_count_against_each_other() -> None:
    wide = spec_for(2, flavor=flavor(vcpus=20))
    text = refusal(outside(says("doc1", "doc1")).answer(wide, HOSTS), wide)
    assert text == "Scheduler driver Scripted chose no host that can take the server."
    assert outside(says("doc1", "dev1")).answer(wide, HOSTS).decide(HOSTS).ranked


def test_the_policy_of_a_server_group_holds_for_drivers_too() -> None:
    apart = replace(spec_for(2), group=GroupView("g", "anti-affinity"))
    assert "no host that can take" in refusal(outside(says("doc1", "doc1")).answer(apart, HOSTS), apart)
    together = replace(spec_for(2), group=GroupView("g", "affinity", hosts={"dev1": 1}))
    assert "no host that can take" in refusal(outside(says("doc1", "doc1")).answer(together, HOSTS), together)
    assert outside(says("dev1", "dev1")).answer(together, HOSTS).decide(HOSTS).ranked


def test_a_driver_cannot_move_a_server_to_another_hypervisor() -> None:
    hosts = table(
        host("real", capabilities=Capabilities("QEMU", abilities=("cold-migrate",)), instances=("server",)),
        host("other", capabilities=Capabilities("QEMU", abilities=("cold-migrate",))),
        host("simulated", capabilities=Capabilities("fake")),
    )
    moving = with_resources(spec_for().moving(MoveKind.COLD_MIGRATE, "server", leaving=("real",)))
    answer = outside(says("simulated")).answer(moving, hosts).decide(hosts)
    assert answer.steps[0].reason == "chose simulated (has another hypervisor than the server's host)"
    assert outside(says("other")).answer(moving, hosts).decide(hosts).ranked

    def any_that_is_up(context: Any, _: Any, __: Any) -> Any:
        return says(Scheduler().hosts_up(context, "compute")[-1])()

    assert outside(any_that_is_up).answer(moving, hosts).decide(hosts).ranked[0].host == "other"


class Refusing:
    name = "refusing"
    reason = ""

    def apply(self, spec: Any, aggregates: Any) -> Any:
        raise RequestFilterFailed("Not today.")


def test_where_conditions_say_which_provider_gives_what_they_hold_for_drivers_too() -> None:
    dedicated = spec_for(flavor=flavor({"hw:cpu_policy": "dedicated"}))
    assert outside(says("doc1")).answer(dedicated, HOSTS).decide(HOSTS).ranked[0].host == "doc1"
    strict = OutsideDriver(Scripted(says("doc1")), Engine(request_filters=(Refusing(),)))
    assert refusal(strict.answer(dedicated, HOSTS)) == "Not today."
    assert strict.answer(spec_for(), HOSTS).decide(HOSTS).ranked


def test_a_host_that_is_gone_by_the_time_of_the_claim_is_a_refusal() -> None:
    answer = outside(says("doc1")).answer(spec_for(), HOSTS)
    fewer = table(host("dev1"))
    assert "no longer exists" in (answer.decide(fewer).refusal or "")


def test_capabilities_are_told_to_drivers_that_want_them_when_they_change() -> None:
    told: list[tuple[str, str, Any]] = []

    class Curious(Scripted):
        def update_service_capabilities(self, service_name: str, host: str, capabilities: Any) -> None:
            told.append((service_name, host, capabilities["hypervisor_version"]))

    driver = OutsideDriver(Curious(says("a")), Engine())
    first = table(host("a"), host("b", capabilities=Capabilities("QEMU", 6)))
    for hosts in (first, first, table(host("a"), host("b", capabilities=Capabilities("QEMU", 7)))):
        assert driver.answer(spec_for(), hosts).decide(hosts).ranked
    assert told == [("compute", "a", 0), ("compute", "b", 6), ("compute", "b", 7)]


def test_a_driver_may_leave_the_choice_to_the_filters() -> None:
    class Picky(FilterScheduler):
        def select_destinations(self, context: Any, request_spec: Any, filter_properties: Any) -> Any:
            filter_properties["force_hosts"] = ["dev1"]
            return super().select_destinations(context, request_spec, filter_properties)

    answer = OutsideDriver(Picky(), Engine()).answer(spec_for(2), HOSTS)
    assert answer.decide(HOSTS).ranked[0].host == "dev1"


@pytest.fixture
def ip_scheduler() -> Iterator[Scheduler]:
    sys.path.insert(0, EXAMPLES)
    from ip_scheduler import IPScheduler

    yield IPScheduler()
    sys.path.remove(EXAMPLES)


@pytest.mark.parametrize(
    ("address", "place"),
    [("10.1.2.3", "doc1"), ("10.10.0.1", "doc1"), ("10.2.0.1", "ops1"), ("192.0.2.1", "dev1"), (None, "dev1")],
)
def test_the_driver_of_the_document(ip_scheduler: Scheduler, address: str | None, place: str) -> None:
    spec = replace(spec_for(3), remote_address=address)
    answer = OutsideDriver(ip_scheduler, Engine()).answer(spec, HOSTS)
    assert {answer.decide(HOSTS).ranked[0].host for _ in range(3)} == {place}


def test_the_words_of_the_document(ip_scheduler: Scheduler) -> None:
    driver = OutsideDriver(ip_scheduler, Engine())
    off = table(host("dev1", disabled=True))
    assert driver.answer(spec_for(), off).decide(off).refusal == (
        "No valid host was found. Is the appropriate service running?"
    )
    docs = table(host("doc1"))
    assert driver.answer(spec_for(), docs).decide(docs).refusal == (
        "No valid host was found. Could not find another compute"
    )


def test_nothing_a_driver_chooses_is_claimed_beyond_what_there_is(cell_of: NewCell) -> None:
    cell = cell_of(simulated("one"), simulated("two"), driver=outside(says("one")))
    orders = [order(cell) for _ in range(8)]

    def place(each: Any) -> Placed | NoValidHost:
        try:
            return cell.claimer.place(each)
        except NoValidHost as error:
            return error

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(place, orders))
    assert Counter(type(outcome) for outcome in outcomes) == {Placed: 4, NoValidHost: 4}
    placed = hosts_of(cell, [each.jobs[0].instance_uuid for each in orders])
    assert Counter(placed) == {"one": 4, None: 4}
    with cell.database.read() as connection:
        check_books(connection)
    assert not cell.mirror.assumed()


def test_a_broken_driver_fails_its_request_and_the_next_one_is_served(cell_of: NewCell) -> None:
    release = threading.Event()
    acts = [raises(ZeroDivisionError()), lambda *_: release.wait(30), says("nowhere"), says("one")]

    def act(*asked: Any) -> Any:
        return acts.pop(0)(*asked)

    cell = cell_of(simulated("one"), driver=outside(act, timeout_s=0.2))
    uuids = []
    for _ in range(4):
        uuids += cell.boot(is_admin=True, remote_address="10.1.0.1")
        cell.bus.run()
    release.set()
    assert list(cell.check().values()).count("active") == 1
    assert cell.instance(uuids[3]).host == "one"
    faults = [cell.instance(uuid).fault for uuid in uuids[:3]]
    cell.database.write(lambda _: None)  # after which the decisions before it are stored
    with cell.database.read() as connection:
        stored = [decisions.find(connection, uuid)[0].body for uuid in uuids]
        (count,) = connection.execute(sa.text("select count(*) from decisions")).one()
    assert [fault.message for fault in faults if fault] == [
        "Scheduler driver Scripted failed: it raised ZeroDivisionError.",
        "Scheduler driver Scripted did not answer within 0.2 s.",
        "Scheduler driver Scripted returned an invalid answer: there is no such host.",
    ]
    assert count == 4
    assert [(body["chosen"], body["steps"][0][0]) for body in stored] == [
        *[(None, "Scripted")] * 3,
        ("one", "Scripted"),
    ]
    assert stored[2]["steps"][0][1] == "there is no host 'nowhere' with node None"


def test_isolation_rules_hold_for_drivers_too() -> None:
    kept = table(
        host("one"), host("two"), aggregates=(Aggregate(1, "u", "kept", ("one",), {"kilonova:only": "project=p"}),)
    )
    answer = outside(says("one")).answer(spec_for(), kept)
    decision = answer.decide(kept)
    assert decision.refusal == "Scheduler driver Scripted chose no host that can take the server."
    assert decision.steps[0].reason == "chose one (reserved by isolation rules for other servers)"

    def first_up(context: Any, *_: Any) -> Any:
        return says(Scheduler().hosts_up(context, "compute")[0])()

    for project, place in (("p", "one"), ("q", "two")):
        spec = spec_for(project_id=project)
        assert outside(first_up).answer(spec, kept).decide(kept).ranked[0].host == place


def test_a_rule_that_is_made_while_the_driver_thinks_is_no_way_in(cell_of: NewCell) -> None:
    asked: list[str] = []

    def think(*_: Any) -> Any:
        if not asked:

            def keep(tx: Transaction) -> None:
                made = aggregates.create(tx, "kept")
                aggregates.add_host(tx, made.id, "one", default_zone="nova")
                aggregates.set_metadata(tx, made.id, {"kilonova:only": "project=other-project"})

            cell.database.write(keep)
        asked.append("once more")
        return says("one" if len(asked) == 1 else "two")()

    cell = cell_of(simulated("one"), simulated("two"), driver=outside(think))
    (uuid,) = cell.boot()
    cell.bus.run()
    assert cell.instance(uuid).host == "two"
    assert len(asked) == 2
    cell.check()


def test_a_server_that_is_gone_meanwhile_is_not_asked_for_again(cell_of: NewCell) -> None:
    counts: list[int] = []

    def think(_: Any, request_spec: Any, __: Any) -> Any:
        if not counts:
            cell.database.write(lambda tx: instances.mark_deleted(tx, request_spec["instance_uuids"][0]))
        counts.append(request_spec["num_instances"])
        return says(*["one"] * counts[-1])()

    cell = cell_of(simulated("one"), driver=outside(think))
    wanted = order(cell, 4)
    placed = cell.claimer.place(wanted)
    assert placed.gone == {wanted.spec.instance_uuids[0]}
    assert [flow.instance_uuid for flow in placed.workflows] == list(wanted.spec.instance_uuids[1:])
    assert counts == [4, 3]


def test_a_host_that_failed_the_spawn_is_named_as_tried(cell_of: NewCell) -> None:
    scripted = Scripted(lambda _, __, properties: says("two" if properties["retry"] else "one")())
    cell = cell_of(simulated("one", failing_spawns=1), simulated("two"), driver=OutsideDriver(scripted, Engine()))
    (uuid,) = cell.boot()
    cell.bus.run()
    assert cell.instance(uuid).host == "two"
    assert [asked["ignore_hosts"] for asked in scripted.asked] == [[], ["one"]]


def test_what_waits_aside_holds_up_nothing_else() -> None:
    bus, release, done = LocalBus(), threading.Event(), threading.Event()
    for _ in range(8):
        bus.run_blocking(lambda: release.wait(30) and None)
    bus.run_in_conductor(done.set)
    assert done.wait(10)
    release.set()
    bus.close()
