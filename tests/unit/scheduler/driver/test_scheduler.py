# SPDX-License-Identifier: Apache-2.0
"""The base classes of scheduler drivers, and the context that a driver is called with."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.errors import NoValidHost
from kilonova.model.server_group import GroupView
from kilonova.scheduler.driver import Cloud, FilterScheduler, RequestContext, Scheduler
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.filters import ServerGroupAntiAffinityFilter
from kilonova.scheduler.nova_compat.request_view import as_driver_arguments
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.weighers import RAMWeigher

HOSTS = table(
    host("up"),
    host("off", disabled=True),
    host("down", forced_down=True),
    host("silent", last_seen=-61.0),
    host("many", node="many1", uuid="m1"),
    host("many", node="many2", uuid="m2"),
)
SPEC = with_resources(
    request(
        properties={"tesora_edition": "x"},
        user_id="alice",
        project_id="wonder",
        request_id="req-1",
        remote_address="10.1.2.3",
        instance_uuids=("i1", "i2"),
        hints={"color": ("blue",), "rooms": ("a", "b")},
        ignore_hosts=frozenset({"many"}),
        group=GroupView("g", "anti-affinity", hosts={"many": 1, "up": 0}),
    )
)


def context(spec: Any = SPEC, **parts: Any) -> RequestContext:
    return RequestContext.of(Cloud(HOSTS, spec, **parts))


def test_hosts_up_are_those_whose_service_is_up_and_enabled_each_once() -> None:
    asked = context(), "compute"
    assert Scheduler().hosts_up(*asked) == ["up", "many"]
    assert Scheduler().hosts_up(context(), "conductor") == []
    assert Scheduler().hosts_up(context(service_down_time_s=61), "nova-compute") == ["up", "silent", "many"]


def test_group_hosts_hold_members() -> None:
    asked = context(group_of={"g": SPEC.group}.get)
    assert Scheduler().group_hosts(asked, "g") == ["many"]
    assert Scheduler().group_hosts(asked, "unknown") == []


def test_methods_without_a_default_raise_not_implemented_error() -> None:
    class Idle(Scheduler):
        pass

    idle = Idle("any", older="arguments are ignored")
    with pytest.raises(NotImplementedError, match="Idle does not implement select_destinations"):
        idle.select_destinations(context(), {}, {})
    with pytest.raises(NotImplementedError, match="schedule_run_instance"):
        idle.schedule_run_instance(context(), {}, None, None, None, True, {}, False)
    idle.update_service_capabilities("compute", "up", {})


def test_the_context_names_the_user_the_project_and_the_address() -> None:
    asked = context()
    assert (asked.user, asked.tenant, asked.request_id, asked.remote_address) == (
        "alice",
        "wonder",
        "req-1",
        "10.1.2.3",
    )
    assert not asked.is_admin
    assert asked.elevated() == replace(asked, is_admin=True)
    assert context(replace(SPEC, is_admin=True)).to_dict()["is_admin"] is True
    assert "<Cloud of 6 hosts>" in str(asked.__dict__)


ENGINE = Engine(filters=(ServerGroupAntiAffinityFilter(),), weighers=(RAMWeigher(),))


def chosen(spec: Any, **changed: Any) -> list[str]:
    request_spec, properties = as_driver_arguments(spec)
    asked = RequestContext.of(Cloud(HOSTS, spec, ENGINE))
    return [
        each["host"] for each in FilterScheduler().select_destinations(asked, request_spec, {**properties, **changed})
    ]


def test_the_filter_scheduler_places_each_server_after_the_others() -> None:
    free = replace(SPEC, ignore_hosts=frozenset(), group=None, hints={})
    assert chosen(free) == ["up", "off"]
    before = HOSTS.used.copy()
    apart = replace(SPEC, hints={})
    assert chosen(apart) == ["up", "off"]
    assert (HOSTS.used == before).all()
    with pytest.raises(NoValidHost, match="ServerGroupAntiAffinityFilter: 1 of 1 hosts"):
        chosen(apart, force_hosts=[], ignore_hosts=["off", "down", "silent", "many"])


def test_a_driver_may_change_the_hosts_of_the_filter_scheduler() -> None:
    free = replace(SPEC, group=None, hints={})
    assert chosen(free, force_hosts=["silent"], ignore_hosts=None) == ["silent", "silent"]
    assert chosen(free, ignore_hosts=["up", "off", "down", "silent"]) == ["many", "many"]
    assert chosen(free, force_nodes=["many2"], ignore_hosts=[]) == ["many", "many"]
