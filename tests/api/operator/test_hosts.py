# SPDX-License-Identifier: Apache-2.0
"""Agents of hosts and their protocol versions: /operator/v1/hosts, and /os-services on request."""

import json

import pytest
from rich.console import Console

import kilonova
from kilonova.cli.cloud.printing import output_console
from kilonova.cli.commands.agents_of_hosts import show_hosts
from kilonova.errors import AgentTooOld
from kilonova.messaging.bus import Sender
from kilonova.messaging.codec import OLDEST, VERSION
from kilonova.messaging.messages import HostsStarted
from kilonova.model.ability import Ability
from kilonova.model.host import Capabilities, NodeReport
from support.api_client import Client
from support.control import Control, NewControl

SPOKEN = {"release": kilonova.__version__, "message_version": VERSION}


def test_hosts_say_where_their_agents_are(control: Control, operator: Client) -> None:
    answer = operator.get("/hosts")
    assert answer.status == 200
    first, second = answer.body["hosts"]
    assert (first["host"], second["host"]) == ("node1", "node2")
    assert (first["state"], first["status"], first["agent"]) == ("up", "enabled", None)
    assert first["process"] == control.process.conductor.owner
    assert {name: first[name] for name in SPOKEN} == SPOKEN


def test_hosts_say_what_their_hypervisors_can_do_and_lack(
    new_control: NewControl, capsys: pytest.CaptureFixture[str]
) -> None:
    abilities = "[cold-migrate, console-output, diagnostics, pause, reboot, rebuild, snapshot, suspend]"
    control = new_control(
        scenario="images: []\nhosts:\n"
        "  - able\n"
        f"  - {{name: other, capabilities: {{hypervisor_type: metal, abilities: {abilities}}}}}\n"
    )
    operator = control.operator
    able, other = (each["hypervisors"] for each in operator.get("/hosts").body["hosts"])
    (hypervisor,) = able
    assert (hypervisor["hypervisor_type"], hypervisor["lacks"]) == ("fake", [])
    assert hypervisor["abilities"] == [ability.value for ability in Ability]
    (hypervisor,) = other
    assert (hypervisor["hypervisor_hostname"], hypervisor["hypervisor_type"]) == ("other", "metal")
    assert sorted(hypervisor["abilities"] + hypervisor["lacks"]) == sorted(Ability)
    assert "live-migrate" in hypervisor["lacks"]
    show_hosts(operator.get("/hosts").body, Console(width=400))
    told = capsys.readouterr().out.splitlines()
    assert "live-migrate" in next(line for line in told if line.startswith("other"))
    assert "migrate" not in next(line for line in told if line.startswith("able"))


def test_an_agent_that_is_refused_is_shown_with_its_hosts(control: Control) -> None:
    operator = control.operator
    assert [each["refused"] for each in operator.get("/hosts").body["hosts"]] == [None, None]
    report = NodeReport("node2", "node2", Capabilities(), ())
    with pytest.raises(AgentTooOld):
        control.process.conductor.answer(HostsStarted((report,), release="0.0.9"), Sender("rack1", OLDEST - 1))
    first, second = operator.get("/hosts").body["hosts"]
    assert first["refused"] is None
    assert second["refused"].startswith("Agent rack1 runs release 0.0.9, whose message version 2 is too old")
    (refused,) = operator.get("/health").body["health"]["refused_agents"]
    assert (refused["agent"], refused["hosts"], refused["reason"]) == ("rack1", ["node2"], second["refused"])


def test_hosts_come_in_pages(operator: Client) -> None:
    page = operator.get("/hosts?limit=1")
    assert [each["host"] for each in page.body["hosts"]] == ["node1"]
    assert page.body["hosts_links"][0]["href"].endswith("/hosts?limit=1&marker=node1")
    rest = operator.get("/hosts?limit=1&marker=node1")
    assert [each["host"] for each in rest.body["hosts"]] == ["node2"]
    assert "hosts_links" not in rest.body
    assert [each["host"] for each in operator.get("/hosts?host=node2").body["hosts"]] == ["node2"]


@pytest.mark.parametrize("query", ["limit=x", "colour=red", "host="])
def test_a_query_that_makes_no_sense_is_refused(operator: Client, query: str) -> None:
    assert operator.get(f"/hosts?{query}").status == 400


def test_services_show_versions_to_those_who_ask_for_them(control: Control) -> None:
    plain = control.admin.get("/os-services").body["services"]
    assert not any(SPOKEN.keys() & each.keys() for each in plain)
    shown = control.admin.get("/os-services?with_versions=true").body["services"]
    assert {each["binary"] for each in shown} == {"nova-compute", "nova-conductor", "nova-scheduler"}
    for each in shown:
        assert {name: each.pop(name) for name in SPOKEN} == SPOKEN
    assert shown == plain
    assert control.admin.get("/os-services?with_versions=maybe").status == 400


def test_the_list_reads_well(operator: Client, capsys: pytest.CaptureFixture[str]) -> None:
    show_hosts(json.loads(json.dumps(operator.get("/hosts").body)), output_console())
    told = capsys.readouterr().out
    assert "node1" in told
    assert "in a control process" in told
    show_hosts({"hosts": []}, output_console())
    assert capsys.readouterr().out == "There are no hosts.\n"
