# SPDX-License-Identifier: Apache-2.0
"""Moves go to hosts that can take them in, and the reasons why the others cannot are counted."""

import pytest
from tests.unit.scheduler.small_cloud import flavor, host, request, table

from kilonova.model.ability import Ability
from kilonova.model.host import Capabilities
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_migration import MoveKind
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.explanations.explain import explain
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.resources import with_resources

ALL = tuple(Ability)
ON_ONE_HOST = tuple(ability for ability in Ability if ability not in {Ability.COLD_MIGRATE, Ability.LIVE_MIGRATE})
PLAIN = Capabilities("metal", abilities=())


def mixed() -> HostTable:
    """A real host with a server, another one, and a simulated one that every weigher would prefer."""
    return table(
        host("real1", capabilities=Capabilities("QEMU", abilities=ON_ONE_HOST), instances=("server",), num_instances=1),
        host("real2", capabilities=Capabilities("QEMU", abilities=ON_ONE_HOST)),
        host("simulated", capabilities=Capabilities("fake", abilities=ALL)),
    )


def moving(kind: MoveKind, *leaving: str, uuid: str = "server", to: str | None = None) -> RequestSpec:
    return with_resources(request().moving(kind, uuid, leaving=leaving, flavor=flavor(vcpus=2), host=to))


def chosen(hosts: HostTable, spec: RequestSpec) -> list[str]:
    return [ranked.host for ranked in Engine().decide(hosts, spec, limit=9).ranked]


def test_a_resize_among_mixed_hosts_stays_where_the_server_is() -> None:
    assert chosen(mixed(), moving(MoveKind.RESIZE)) == ["real1"]
    story = explain(mixed(), moving(MoveKind.RESIZE), Engine())
    assert story.reasons(1) == (
        ("abilities", "the server's host lacks the ability cold-migrate"),
        ("abilities", "lacks the ability cold-migrate"),
    )
    assert story.reasons(2) == (
        ("hypervisor_type", "has another hypervisor than the server's host"),
        ("abilities", "the server's host lacks the ability cold-migrate"),
    )


def test_each_lost_host_is_counted_with_its_reason() -> None:
    decision = Engine().decide(mixed(), moving(MoveKind.RESIZE, "real1"), limit=1)
    assert [(step.rule, step.removed) for step in decision.steps] == [
        ("ignore_hosts", 1),
        ("hypervisor_type", 1),
        ("abilities", 1),
    ]


@pytest.mark.parametrize("kind", [MoveKind.COLD_MIGRATE, MoveKind.LIVE_MIGRATE])
def test_a_host_that_moves_no_guests_sends_none_and_gets_none(kind: MoveKind) -> None:
    hosts = table(
        host("real1", capabilities=Capabilities("QEMU", abilities=ON_ONE_HOST), instances=("stuck",)),
        host("able1", capabilities=Capabilities("QEMU", abilities=ALL), instances=("free",)),
        host("able2", capabilities=Capabilities("QEMU", abilities=ALL)),
    )
    assert chosen(hosts, moving(kind, "real1", uuid="stuck")) == []
    assert chosen(hosts, moving(kind, "able1", uuid="free")) == ["able2"]
    assert chosen(hosts, moving(kind, "able1", uuid="free", to="real1")) == []


def test_hosts_of_the_release_before_count_as_what_they_were() -> None:
    hosts = table(
        host("old", capabilities=Capabilities("QEMU"), instances=("real",)),
        host("simulated1", capabilities=Capabilities("fake"), instances=("simulated",)),
        host("simulated2", capabilities=Capabilities("fake", abilities=ALL)),
    )
    assert chosen(hosts, moving(MoveKind.COLD_MIGRATE, "old", uuid="real")) == []
    assert chosen(hosts, moving(MoveKind.LIVE_MIGRATE, "simulated1", uuid="simulated")) == ["simulated2"]


def test_what_is_made_anew_of_its_image_may_go_to_another_hypervisor_that_can_make_it() -> None:
    hosts = table(*(host(name, capabilities=each) for name, each in (("plain", PLAIN), ("fake", Capabilities("fake")))))
    assert chosen(hosts, moving(MoveKind.EVACUATE)) == ["fake"]
    assert chosen(mixed(), moving(MoveKind.EVACUATE, "real1")) == ["real2", "simulated"]
    assert chosen(hosts, moving(MoveKind.UNSHELVE)) == ["plain", "fake"]


def test_a_host_that_resizes_nothing_is_no_place_to_stay_at() -> None:
    hosts = table(host("plain", capabilities=PLAIN, instances=("server",)), host("other", capabilities=PLAIN))
    assert chosen(hosts, moving(MoveKind.RESIZE)) == []
    assert ("abilities", "lacks the ability resize-same-host") in explain(
        hosts, moving(MoveKind.RESIZE), Engine()
    ).reasons(0)


def test_where_all_hosts_are_alike_nothing_is_asked() -> None:
    alike = table(host("node1", instances=("server",)), host("node2"))
    for kind in MoveKind:
        rules = {step.rule for step in Engine().decide(alike, moving(kind), limit=1).steps}
        assert not rules & {"hypervisor_type", "abilities"}
    rules = {step.rule for step in Engine().decide(mixed(), with_resources(request()), limit=1).steps}
    assert not rules & {"hypervisor_type", "abilities"}, "new servers have no host yet"
