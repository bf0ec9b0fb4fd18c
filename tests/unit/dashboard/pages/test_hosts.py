# SPDX-License-Identifier: Apache-2.0
import orjson
import pytest

from support.dashboards import USAGE, Browser, FakeCloud, server


def test_the_map_and_its_columns(operator: Browser) -> None:
    assert "2 hosts" in operator.get("/hosts").text
    columns = operator.get("/hosts/map").json
    assert (columns["names"], columns["state"]) == (["node1", "node2"], [0, 2])


def test_the_same_as_a_table_and_as_files(operator: Browser) -> None:
    table = operator.get("/hosts?as=table").text
    assert "node1" in table
    assert "50 %" in table
    first = operator.get("/hosts.csv").text.splitlines()[1]
    assert first == "node1,node1,nova,up,1,4,8,512,4096"
    (one, _) = orjson.loads(operator.get("/hosts.json").content)
    assert one["VCPU used"] == 4


def test_a_long_table_has_pages(operator: Browser, cloud: FakeCloud) -> None:
    names = [f"node{number:04}" for number in range(450)]
    columns = {"zones": ["nova"], "up": [True], "disabled": [False], "servers": [0]}
    many = {name: values * 450 for name, values in columns.items()}
    answer = {**USAGE, "version": "0000bbbb-1", "hosts": names, "nodes": names, "resources": {}, **many}
    cloud.answers["GET", "/v1/hosts/usage"] = answer
    assert "Page 1 of 3" in operator.get("/hosts?as=table").text
    last = operator.get("/hosts?as=table&page=2").text
    assert "node0449" in last
    assert "Next" not in last
    assert operator.get("/hosts?as=table&page=x").status_code == 400


def test_one_host_as_page_and_as_panel(operator: Browser, cloud: FakeCloud) -> None:
    cloud.answers["GET", "/v2.1/servers/detail"] = {"servers": [server("<i>web</i>")]}
    page = operator.get("/hosts/by-name/node1")
    assert "<!doctype html>" in page.text
    panel = operator.get("/hosts/by-name/node1", Fragment="1").text
    assert "<html" not in panel
    assert "&lt;i&gt;web&lt;/i&gt;" in panel
    assert operator.get("/hosts/by-name/none").status_code == 404


@pytest.mark.parametrize("path", ["/hosts", "/hosts/map", "/hosts.csv", "/hosts/by-name/node1", "/events"])
def test_members_see_no_hosts(member: Browser, path: str) -> None:
    answer = member.get(path)
    assert answer.status_code == 403
    assert "node1" not in answer.text.replace("/hosts/by-name/node1", "")
