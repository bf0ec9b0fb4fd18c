# SPDX-License-Identifier: Apache-2.0
"""Nova's guide on host aggregates, executed with the stock client."""

from typing import ClassVar

import pytest

from e2e.commands import server_create
from support.stock_cloud import StockCloud

pytestmark = pytest.mark.cloud

NODES = {f"node{number}" for number in range(1, 6)}


class TestHostAggregates:
    """The guide on host aggregates: hosts with SSDs, and its other commands."""

    scenario: ClassVar = "fast-io"

    def test_services_hypervisors_and_zones_are_listed(self, stock: StockCloud) -> None:
        services, hypervisors, zones = stock.shown_together(
            ("compute", "service", "list"),
            ("--os-compute-api-version=2.53", "hypervisor", "list"),
            ("availability", "zone", "list"),
        )
        found = {(each["Binary"], each["Host"], each["Zone"], each["Status"], each["State"]) for each in services}
        assert {("nova-compute", node, "nova", "enabled", "up") for node in NODES} < found
        assert {(binary, zone) for binary, _, zone, _, _ in found} == {
            ("nova-compute", "nova"),
            ("nova-conductor", "internal"),
            ("nova-scheduler", "internal"),
        }
        assert list(hypervisors[0]) == ["ID", "Hypervisor Hostname", "Hypervisor Type", "Host IP", "State"]
        assert {(each["Hypervisor Hostname"], each["State"]) for each in hypervisors} == {
            (node, "up") for node in NODES
        }
        assert zones == [
            {"Zone Name": "internal", "Zone Status": "available"},
            {"Zone Name": "nova", "Zone Status": "available"},
        ]

    def test_only_the_hosts_with_ssds_take_the_ssd_flavor(self, stock: StockCloud) -> None:
        made = stock.show("aggregate", "create", "--zone", "nova", "fast-io")
        assert (made["name"], made["availability_zone"], made["updated_at"]) == ("fast-io", "nova", None)
        number = str(made["id"])
        stock.do("aggregate", "set", "--property", "ssd=true", number)
        stock.do("aggregate", "add", "host", number, "node1")
        added = stock.show("aggregate", "add", "host", number, "node2")
        assert added["hosts"] == ["node1", "node2"]
        assert added["properties"] == {"ssd": "true", "availability_zone": "nova"}
        shown = stock.show("aggregate", "show", "fast-io")
        assert (shown["hosts"], shown["properties"]) == (["node1", "node2"], {"ssd": "true"})

        size = ("--ram", "8192", "--disk", "80", "--vcpus", "4")
        flavor = stock.show("flavor", "create", "--id", "6", *size, "ssd.large")
        expected = {
            "OS-FLV-DISABLED:disabled": False,
            "OS-FLV-EXT-DATA:ephemeral": 0,
            "disk": 80,
            "id": "6",
            "name": "ssd.large",
            "os-flavor-access:is_public": True,
            "ram": 8192,
            "rxtx_factor": 1.0,
            "swap": 0,
            "vcpus": 4,
        }
        assert {key: flavor[key] for key in expected} == expected
        stock.do("flavor", "set", "--property", "aggregate_instance_extra_specs:ssd=true", "ssd.large")
        flavor = stock.show("flavor", "show", "ssd.large")
        assert {key: flavor[key] for key in expected} == expected
        assert flavor["properties"] == {"aggregate_instance_extra_specs:ssd": "true"}

        stock.do("server", "create", "--flavor", "ssd.large", "--image", "tiny", "--min", "4", "--max", "4", "fast")
        stock.do(*server_create("fast-demo", "ssd.large"), cloud="kilonova-demo")
        places = stock.places("fast")
        assert places.keys() == {"fast-1", "fast-2", "fast-3", "fast-4", "fast-demo"}
        assert set(places.values()) == {"node1", "node2"}

    def test_aggregates_are_in_placement_too(self, stock: StockCloud) -> None:
        stock.do("aggregate", "create", "mirrored")
        stock.do("aggregate", "add", "host", "mirrored", "node3")
        uuid = stock.show("aggregate", "show", "mirrored")["uuid"]
        hypervisors = stock.show("hypervisor", "list")
        ids = {each["Hypervisor Hostname"]: each["ID"] for each in hypervisors}
        members = stock.show("resource", "provider", "list", "--member-of", uuid)
        assert [(each["uuid"], each["name"]) for each in members] == [(ids["node3"], "node3")]
        by_hand = "df4c74f3-d2c4-4991-b461-f1a678e1d161"
        old = "--os-placement-api-version=1.2"
        stock.do(old, "resource", "provider", "aggregate", "set", "--aggregate", by_hand, ids["node4"])
        assert stock.show(old, "resource", "provider", "aggregate", "list", ids["node4"]) == [{"uuid": by_hand}]

    def test_the_commands_for_daily_use(self, stock: StockCloud) -> None:
        stock.do("aggregate", "create", "my-aggregate")
        stock.do("aggregate", "add", "host", "my-aggregate", "node5")
        assert "my-aggregate" in {each["Name"] for each in stock.show("aggregate", "list")}
        stock.do("aggregate", "set", "--property", "pinned=true", "my-aggregate")
        assert stock.show("aggregate", "show", "my-aggregate")["properties"] == {"pinned": "true"}
        stock.do("aggregate", "unset", "--property", "pinned", "my-aggregate")
        stock.do("aggregate", "set", "--name", "my-awesome-aggregate", "my-aggregate")
        shown = stock.show("aggregate", "show", "my-awesome-aggregate")
        assert (shown["hosts"], shown["properties"]) == (["node5"], {})
        assert "not empty" in stock.refused("aggregate", "delete", "my-awesome-aggregate", cloud="kilonova")
        stock.do("aggregate", "remove", "host", "my-awesome-aggregate", "node5")
        stock.do("aggregate", "delete", "my-awesome-aggregate")
        assert "my-awesome-aggregate" not in {each["Name"] for each in stock.show("aggregate", "list")}

    def test_a_server_lives_and_dies(self, stock: StockCloud) -> None:
        made = stock.show(*server_create("mayfly"), "--wait")
        assert made["status"] == "ACTIVE"
        shown, providers = stock.shown_together(("server", "show", "mayfly"), ("resource", "provider", "list"))
        host, uuid = shown["OS-EXT-SRV-ATTR:host"], shown["id"]
        assert host in NODES
        assert (shown["name"], shown["flavor"]["original_name"]) == ("mayfly", "m1.tiny")

        provider = next(each for each in providers if each["name"] == host)["uuid"]
        own, inventories, usages, traits, allocations = stock.shown_together(
            ("resource", "provider", "show", provider),
            ("resource", "provider", "inventory", "list", provider),
            ("resource", "provider", "usage", "show", provider),
            ("resource", "provider", "trait", "list", provider),
            ("resource", "provider", "allocation", "show", uuid),
        )
        assert own["name"] == host
        totals = {each["resource_class"]: each["total"] for each in inventories}
        assert totals == {"VCPU": 16, "MEMORY_MB": 65536, "DISK_GB": 1000}
        used = {each["resource_class"]: each["usage"] for each in usages}
        assert used["VCPU"] >= 1
        assert isinstance(traits, list)
        (allocation,) = allocations
        assert allocation["resource_provider"] == provider
        assert allocation["resources"] == {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}

        stock.do("server", "reboot", "--wait", "mayfly")
        stock.do("server", "reboot", "--hard", "--wait", "mayfly")
        assert stock.places("mayfly") == {"mayfly": host}
        stock.do("server", "delete", "--wait", "mayfly")
        assert stock.places("mayfly") == {}
        assert "mayfly" in stock.refused("server", "show", "mayfly", cloud="kilonova")
        assert stock.show("resource", "provider", "allocation", "show", uuid) == []

    def test_a_plain_member_may_neither_arrange_hosts_nor_see_strangers(self, stock: StockCloud) -> None:
        stock.do(*server_create("private"))
        uuid = stock.show("server", "show", "private")["id"]
        for words in (
            ("aggregate", "create", "mine"),
            ("flavor", "create", "--ram", "64", "--disk", "1", "--vcpus", "1", "mine"),
            ("compute", "service", "set", "--disable", "node1", "nova-compute"),
        ):
            complaint = stock.refused(*words)
            assert "403" in complaint, complaint
        complaint = stock.refused("server", "show", uuid)
        assert uuid in complaint
        assert "No " in complaint or "404" in complaint
        assert stock.show("server", "show", "private")["status"] == "ACTIVE"
        mine = {each["Name"] for each in stock.show("server", "list", cloud="kilonova-demo")}
        assert "private" not in mine

    def test_the_scenario_is_replayed_on_its_own_cloud_alone(self, stock: StockCloud) -> None:
        other = stock.kilonova("demo", "trove")
        assert (other.returncode, other.stdout) == (2, "")
        assert "missing hosts: compute1, compute2, compute3; additional hosts: node1" in other.stderr
        assert f"kilonova up --scenario trove --data {stock.supervisor.folder}" in other.stderr
        own = stock.kilonova("demo", "fast-io")
        assert own.returncode == 0, own.stdout + own.stderr
        assert (
            "$ openstack --os-cloud kilonova server create --flavor m1.tiny --image tiny --min 3 --max 3 plain"
            in own.stdout
        )
        assert "AggregateInstanceExtraSpecsFilter removed node3, node4, node5" in own.stdout
        assert "Every server is where the scenario expects it." in own.stdout
        again = stock.kilonova("demo", "fast-io")
        assert again.returncode == 0
        assert "$ openstack" not in again.stdout
