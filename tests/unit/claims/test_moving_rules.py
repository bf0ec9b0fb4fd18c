# SPDX-License-Identifier: Apache-2.0
"""Every kind of rule is asked about a move as about a build, sees what kind of move it is, and its word counts."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from kilonova.claims.outside_driver import OutsideDriver
from kilonova.db import instances, request_specs
from kilonova.errors import NoValidHost
from kilonova.model.request_spec import REBUILD, REBUILD_HINT, RequestSpec
from kilonova.model.server_group import GroupView
from kilonova.model.server_migration import MigrationType, MoveKind
from kilonova.scheduler.driver import Scheduler
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.filters import ImagePropertiesFilter, ServerGroupAntiAffinityFilter
from kilonova.scheduler.nova_compat.adapters import HostFilterAdapter
from kilonova.scheduler.nova_compat.request_view import RequestView
from kilonova.scheduler.plug_in_rules import PlugInFilter, PlugInRequestFilter
from support.cell import SMALL, Cell, NewCell, host
from support.moves import move, servers
from support.orders import order

KINDS = {
    MigrationType.RESIZE: "resize",
    MigrationType.MIGRATION: "migrate",
    MigrationType.LIVE_MIGRATION: "live-migrate",
}


@dataclass
class Witness:
    """Is a rule of every kind at once. ``seen``: what each was told; ``closed``: the host that it refuses."""

    closed: str = ""
    seen: list[tuple[str, Any, Any]] = field(default_factory=list)

    def passes(self, hosts: Any, spec: RequestSpec) -> Any:
        self.seen.append(("filter", spec.move, sorted(spec.ignore_hosts)))
        return np.array([name != self.closed for name in hosts.hosts])

    def apply(self, spec: RequestSpec, _aggregates: Any) -> RequestSpec:
        self.seen.append(("request filter", spec.move, sorted(spec.ignore_hosts)))
        return spec

    def host_passes(self, state: Any, asked: Any) -> bool:
        destination = asked.requested_destination
        assert (destination is None) == (asked.move is None)
        self.seen.append(("Nova's", asked.move, asked.ignore_hosts))
        return bool(state.host != self.closed)


def placed_on(cell: Cell, uuid: str) -> str | None:
    with cell.database.read() as connection:
        return instances.get(connection, uuid).host


@pytest.mark.parametrize("kind", KINDS)
def test_rules_see_what_kind_of_move_it_is(cell_of: NewCell, kind: MigrationType) -> None:
    witness = Witness()
    filters = PlugInFilter("Witness", witness), HostFilterAdapter("Nova's", witness)
    engine = Engine((PlugInRequestFilter("Witness", witness),), filters)
    cell = cell_of(host("a"), host("b"), host("c"), engine=engine)
    (uuid,) = servers(cell)
    assert {(what, move_kind) for what, move_kind, _ in witness.seen} == {
        ("filter", None),
        ("request filter", None),
        ("Nova's", None),
    }
    witness.seen.clear()
    home = str(placed_on(cell, uuid))
    witness.closed = next(name for name in "abc" if name != home)
    (flow,) = cell.claimer.place(move(cell, uuid, kind=kind)).workflows
    assert flow.facts["host"] not in {home, witness.closed}
    assert {(what, str(move_kind), *hosts) for what, move_kind, hosts in witness.seen} == {
        ("filter", KINDS[kind], home),
        ("request filter", KINDS[kind], home),
        ("Nova's", KINDS[kind], home),
    }


class Driver(Scheduler):
    """Answers with the hosts it is given, one after the other. ``asked``: kind of move, hosts to be left out."""

    def __init__(self, *answers: str) -> None:
        super().__init__()
        self.asked: list[tuple[str | None, list[str], Any]] = []
        self._answers = list(answers)

    def select_destinations(self, context: Any, request_spec: Any, filter_properties: Any) -> Any:
        assert context.cloud.spec.num_instances == request_spec["num_instances"] == 1
        self.asked.append((filter_properties["move"], filter_properties["ignore_hosts"], filter_properties["retry"]))
        return [{"host": self._answers.pop(0), "nodename": None}]


@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_from_outside_is_asked_and_cannot_choose_the_source(cell_of: NewCell, kind: MigrationType) -> None:
    driver = Driver("a", "a", "b")
    cell = cell_of(host("a"), host("b"), driver=OutsideDriver(driver, Engine()))
    (uuid,) = servers(cell)
    (flow,) = cell.claimer.place(move(cell, uuid, kind=kind)).workflows
    assert flow.facts["host"] == "b"
    again = {"num_attempts": 2, "hosts": [["a", None]]}
    assert driver.asked == [(None, [], None), (KINDS[kind], ["a"], None), (KINDS[kind], ["a"], again)]


def test_a_destination_that_somebody_names_has_to_pass_the_rules(cell_of: NewCell) -> None:
    cell = cell_of(host("a"), host("b", vcpus=1), host("c"))
    servers(cell, on="b")
    (uuid,) = servers(cell, on="a")
    wanted = move(cell, uuid)
    to_b = replace(wanted, spec=replace(wanted.spec, requested_host="b"))
    with pytest.raises(NoValidHost, match="VCPU"):
        cell.claimer.place(to_b)
    assert cell.claimer.place(replace(wanted, spec=replace(wanted.spec, requested_host="c"))).workflows
    assert cell.claimer.place(order(cell)).workflows


@pytest.mark.parametrize("kind", MoveKind)
def test_the_request_of_a_move_is_the_stored_one(kind: MoveKind) -> None:
    asked = RequestSpec(
        SMALL,
        project_id="p",
        instance_uuids=("i1", "i2"),
        availability_zone="z",
        hints={"group": ("g",)},
        force_host="a",
        force_node="n",
        tried=(("b", "b"),),
        group=GroupView("g", "affinity"),
    )
    moved = asked.moving(kind, "i2", leaving=("a",), host="c", node="c1")
    assert (moved.move, moved.instance_uuids, moved.ignore_hosts) == (kind, ("i2",), {"a"})
    assert (moved.force_host, moved.force_node, moved.tried) == (None, None, ())
    assert (moved.requested_host, moved.requested_node) == ("c", "c1")
    assert (moved.availability_zone, moved.hints["group"], moved.flavor) == ("z", ("g",), SMALL)
    assert (moved.hints.get(REBUILD_HINT) == REBUILD) == (kind is MoveKind.REBUILD)
    stored, _ = request_specs.from_json(request_specs.as_json(moved, "g"))
    assert stored.move is kind
    view = RequestView(moved)
    assert (view.move, view.requested_destination["host"], view.ignore_hosts) == (kind.value, "c", ["a"])
    assert view.requested_destination["allow_cross_cell_move"] is False


def test_requests_that_are_stored_without_a_move_are_read() -> None:
    body = request_specs.as_json(RequestSpec(SMALL), None)
    del body["move"]
    assert request_specs.from_json(body)[0].move is None


def test_only_filters_made_for_it_judge_a_rebuild(cell_of: NewCell) -> None:
    witness = Witness(closed="a")
    engine = Engine(
        filters=(PlugInFilter("Witness", witness), ImagePropertiesFilter(), ServerGroupAntiAffinityFilter())
    )
    cell = cell_of(host("a"), host("b"), engine=engine)
    hosts = cell.mirror.snapshot()
    spec = RequestSpec(SMALL).moving(MoveKind.REBUILD, "i1", host="a")
    decision = engine.decide(hosts, spec, limit=1)
    assert [ranked.host for ranked in decision.ranked] == ["a"]
    assert witness.seen == []
    assert "ImagePropertiesFilter" in {step.rule for step in decision.steps}
