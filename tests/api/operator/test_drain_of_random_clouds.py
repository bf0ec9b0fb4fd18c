# SPDX-License-Identifier: Apache-2.0
"""Plans of small random clouds, carried out through the compute API: no move is refused, and no rule is violated."""

import random
from typing import Any

import orjson
import pytest
from tests.api.operator.test_capacity_of_random_clouds import CONFIG, FLAVORS, GPU, METADATA, random_host

from kilonova.model.move_plan import Objective
from kilonova.scheduler.devices.pci_request import read_aliases
from support.control import IMAGE, Control, NewControl
from support.inline_jobs import result_of_job
from support.plans_over_http import carry_out, host_of
from support.samples import sampled

POLICIES = ("affinity", "anti-affinity", "soft-anti-affinity")


def random_control(chance: random.Random, new_control: NewControl) -> Control:
    hosts = [random_host(chance, f"node{number}") for number in range(chance.randint(2, 4))]
    scenario = orjson.dumps({"images": [{"name": "cirros"}], "hosts": hosts}).decode()
    control = new_control(flavor=False, scenario=scenario, more=f"{CONFIG}[operator]\njob_workers = 0\n")
    for name, extra_specs in FLAVORS.items():
        control.add_flavor(name, name=name, vcpus=2, ram=chance.choice((512, 1024)))
        if extra_specs:
            assert control.admin.post(f"/flavors/{name}/os-extra_specs", {"extra_specs": extra_specs}).status == 200
    return control


def fill(chance: random.Random, control: Control) -> list[str]:
    """Create servers until some are refused; return the active ones."""
    groups = []
    for policy in chance.sample(POLICIES, 2):
        body = {"server_group": {"name": policy, "policy": policy}}
        groups.append(control.admin.post("/os-server-groups", body).body["server_group"]["id"])
    active = []
    for _ in range(chance.randint(4, 10)):
        hints: dict[str, str] = {"group": chance.choice(groups)} if chance.random() < 0.4 else {}
        if active and chance.random() < 0.15:
            hints["different_host"] = chance.choice(active)
        flavor = chance.choice(("plain", "plain", *FLAVORS))
        server = control.boot(control.admin, hints=hints or None, flavorRef=flavor, imageRef=IMAGE)
        if server["status"] == "ACTIVE":
            active.append(str(server["id"]))
        else:
            assert control.admin.delete(f"/servers/{server['id']}").status == 204
            control.settle()
    return active


def add_aggregate(chance: random.Random, control: Control) -> None:
    made = control.admin.post("/os-aggregates", {"aggregate": {"name": "late"}}).body["aggregate"]
    action = f"/os-aggregates/{made['id']}/action"
    assert control.admin.post(action, {"add_host": {"host": "node0"}}).status == 200
    if metadata := chance.choice(METADATA):
        assert control.admin.post(action, {"set_metadata": {"metadata": metadata}}).status == 200


@pytest.mark.parametrize("seed", range(sampled(60, sample=2)))
def test_plans_of_a_random_cloud(new_control: NewControl, seed: int) -> None:
    chance = random.Random(seed)
    control = random_control(chance, new_control)
    servers = fill(chance, control)
    if chance.random() < 0.5:
        add_aggregate(chance, control)
    asked: dict[str, Any] = {"how": chance.choice(("live", "cold", "either"))}
    if chance.random() < 0.5:
        asked["limits"] = {"per_host": chance.choice((1, 2))}
    objective = chance.choice(tuple(Objective)).value
    parameters = {**asked, "objective": objective, "resource": "MEMORY_MB"}
    found = result_of_job(control, "rebalance", parameters, aliases=read_aliases((GPU,)))
    carry_out(control, found["moves"])
    drained = "node1"
    answer = control.operator.post("/drain", {**asked, "hosts": [drained]})
    assert answer.status == 200, answer.body
    carry_out(control, answer.body["moves"])
    left = {server for server in servers if host_of(control, server) == drained}
    assert left == {stay["server"] for stay in answer.body["stays"]}
    control.check()
