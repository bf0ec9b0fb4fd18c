# SPDX-License-Identifier: Apache-2.0
from kilonova.dashboard.pages.overview import problems, quotas_of, zones_of
from kilonova.dashboard.upstream.host_map import HostMap
from support.dashboards import HEALTH, USAGE, Browser, FakeCloud, server


def test_what_needs_attention_comes_first(operator: Browser, cloud: FakeCloud) -> None:
    failed = server("<script>alert(1)</script>", status="ERROR", fault={"message": "No valid host was found."})
    cloud.answers["GET", "/v2.1/servers/detail"] = {"servers": [failed]}
    page = operator.get("/overview").text
    assert "2 things need you" in page
    assert "1 host is down" in page
    assert "1 server is in ERROR" in page
    assert "<script>alert" not in page


def test_problems_are_ordered_by_severity() -> None:
    health = {
        **HEALTH,
        "checks": [{"name": "broker", "healthy": False, "problem": "no connection"}],
        "workflows": {"unfinished": 4, "stuck": 2, "awaiting_hosts": [{"host": "node2", "workflows": 2}]},
        "read_only": True,
        "refused_agents": [{"agent": "node9"}],
    }
    found = problems(health, HostMap(USAGE), [])
    assert [each.severity for each in found] == ["bad"] * 3 + ["warn"] * 3
    assert found[0].text == "Check failed: broker"


def test_a_cloud_without_problems_has_none() -> None:
    assert problems(HEALTH, HostMap({**USAGE, "up": [True, True]}), []) == []


def test_zones_add_up() -> None:
    (zone,) = zones_of(HostMap(USAGE))
    assert (zone["hosts"], zone["down"], zone["servers"]) == (2, 1, 1)
    assert zone["use"][0] == ("vCPUs", (4, 16))


def test_a_member_sees_quotas_and_no_host(member: Browser, cloud: FakeCloud) -> None:
    cloud.answers["GET", "/v2.1/servers/detail"] = {"servers": [server(status="ERROR")]}
    page = member.get("/overview").text
    assert "Quotas" in page
    assert "node1" not in page
    assert "/hosts" not in page


def test_a_quota_without_a_limit_has_none() -> None:
    quotas = quotas_of({"totalCoresUsed": 3, "maxTotalCores": -1, "totalRAMUsed": 5, "maxTotalRAMSize": 7})
    assert [(each["name"], each["used"], each["most"]) for each in quotas] == [("vCPUs", 3, None), ("Memory", 5, 7)]
