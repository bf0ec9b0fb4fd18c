# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.model.aggregate import Aggregate
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.explanations.changes import SWITCH, Change, apply_changes
from kilonova.scheduler.explanations.host_changes import free_change, host_changes
from kilonova.scheduler.host_table import HostTable

HOSTS = table(host("a", disabled=True), host("b", node="b1", disabled=True), host("b", node="b2", disabled=True))


def enable() -> Change:
    return next(each for each in host_changes(HOSTS, request()) if each.kind == "enable")


def test_a_change_of_a_service_is_made_to_every_hypervisor_of_its_host() -> None:
    hosts, spec = apply_changes(HOSTS, request(), [enable().at("b", "b1")])
    assert hosts.disabled.tolist() == [True, False, False]
    assert spec == request()
    assert HOSTS.disabled.all(), "the table itself stays as it is"


def test_a_change_of_a_hypervisor_is_made_to_this_one_alone() -> None:
    hosts, _ = apply_changes(HOSTS, request(), [free_change("VCPU", 2, 4).at("b", "b2")])
    column = hosts.column("VCPU")
    assert (hosts.used[:, column] - HOSTS.used[:, column]).tolist() == [0, 0, -2]


def test_a_change_without_a_host_changes_no_host() -> None:
    hosts, _ = apply_changes(HOSTS, request(), [enable()])
    assert hosts.disabled.all()


def test_only_changes_of_hosts_get_the_name_of_one() -> None:
    def same_request(spec: RequestSpec) -> RequestSpec:
        return spec

    asked = Change("zone", "ask for no zone", SWITCH, on_request=same_request)
    assert asked.at("a", "a") is asked
    named = enable().at("a", "a1")
    assert (named.host, named.node, named.text) == ("a", "a1", "enable a")

    def same(hosts: HostTable, _rows: np.ndarray) -> HostTable:
        return hosts

    metadata = Change("metadata", "set {x}", SWITCH, on_hosts=same)
    assert metadata.at("a", "a") is metadata


def test_braces_in_the_name_of_an_aggregate_are_kept() -> None:
    hosts = table(host("a"), aggregates=(Aggregate(1, "u1", "odd {host} name", ()),))
    add = next(each for each in host_changes(hosts, request()) if each.kind == "aggregate")
    assert "odd {host} name" in add.at("a", "a").text
