# SPDX-License-Identifier: Apache-2.0
"""What the documents show, done again with the stock client against whole clouds."""

import json
import os
import time
from pathlib import Path
from typing import ClassVar

import pytest

from support.stock_cloud import StockCloud

pytestmark = pytest.mark.cloud

NODES = {f"node{number}" for number in range(1, 6)}


def server_create(name: str, flavor: str = "m1.tiny", image: str = "tiny") -> tuple[str, ...]:
    return ("server", "create", "--flavor", flavor, "--image", image, name)


class TestHostAggregates:
    """The guide on host aggregates: hosts with SSDs, and what else it runs."""

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
        assert "it has no host compute1, compute2, compute3; it also has node1" in other.stderr
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


_INTERVAL_S = 20
_RECLAIM = f"""reclaim_instance_interval = {_INTERVAL_S}
[notifications]
file = notifications.json
notification_format = versioned"""


class TestTrove:
    """The article on Trove hosts: a filter of one's own, three computes, six servers."""

    scenario: ClassVar = "trove"
    options: ClassVar = _RECLAIM

    def test_tagged_images_go_to_the_trove_host_and_no_others_do(self, stock: StockCloud, tmp_path: Path) -> None:
        stock.do("aggregate", "create", "Trove")
        shown = stock.show("aggregate", "add", "host", "Trove", "compute3")
        assert shown["hosts"] == ["compute3"]
        disk = tmp_path / "disk.raw"
        disk.write_bytes(b"\0" * 4096)
        upload = ("image", "create", "--public", "--disk-format", "raw", "--file", str(disk))
        tag = ("--property", "tesora_edition=enterprise")
        stock.together((*upload, *tag, "cirros-tagged"), (*upload, "cirros-no-tags"))
        for image, cloud in (("cirros-tagged", "kilonova"), ("cirros-no-tags", "kilonova-demo")):
            name = image.removeprefix("cirros-")
            stock.together(*(server_create(f"{name}{number}", image=image) for number in range(3)), cloud=cloud)
        assert list(stock.places("tagged").values()) == ["compute3"] * 3
        untagged = stock.places("no-tags")
        assert len(untagged) == 3
        assert set(untagged.values()) == {"compute1", "compute2"}

        log = (stock.supervisor.folder / "log" / "control.log").read_text()
        walk = [line for line in log.splitlines() if "trove_filter" in line and " DEBUG " in line]
        assert any("(compute2, compute2) ram:" in line and line.endswith("is NOT a trove node") for line in walk)
        assert any("(compute3, compute3) ram:" in line and line.endswith("is a trove node") for line in walk)
        assert "TroveImageFilter returned 1 of 3 hosts: (compute3, compute3)" in log


class TestNotifications:
    """The page on notifications: a file tells of a server, in the cloud of the article on Trove."""

    scenario: ClassVar = "trove"
    options: ClassVar = _RECLAIM

    def test_the_file_tells_of_a_server_that_is_made(self, stock: StockCloud) -> None:
        uuid = stock.show("server", "create", "--flavor", "m1.tiny", "--image", "cirros-no-tags", "--wait", "told")[
            "id"
        ]
        host = stock.show("server", "show", uuid)["OS-EXT-SRV-ATTR:host"]
        path = stock.supervisor.folder / "log" / "notifications.json"
        said = [json.loads(line) for line in path.read_text().splitlines()]
        here = os.uname().nodename
        assert [(each["priority"], each["publisher_id"], each["event_type"]) for each in said[-4:]] == [
            ("INFO", f"nova-scheduler:{here}", "scheduler.select_destinations.start"),
            ("INFO", f"nova-scheduler:{here}", "scheduler.select_destinations.end"),
            ("INFO", f"nova-compute:{host}", "instance.create.start"),
            ("INFO", f"nova-compute:{host}", "instance.create.end"),
        ]
        assert said[-1]["payload"]["nova_object.data"]["uuid"] == uuid
        assert said[-1]["_context_request_id"].startswith("req-")
        stock.do("server", "delete", "--force", uuid)


class TestReclaim:
    """The article on soft deletes and reclaim_instance_interval, in the cloud of the one on Trove."""

    scenario: ClassVar = "trove"
    options: ClassVar = _RECLAIM

    def test_a_deleted_server_can_be_restored_until_it_is_reclaimed(self, stock: StockCloud) -> None:
        mine = "kilonova-demo"
        image = ("--image", "cirros-no-tags", "--flavor", "m1.tiny", "--wait")
        uuids = {
            name: stock.show("server", "create", *image, name, cloud=mine)["id"] for name in ("kept", "old", "forced")
        }
        begun = time.monotonic()
        stock.do("server", "delete", uuids["old"], uuids["kept"], cloud=mine)
        hidden = stock.show("server", "list", "--status", "SOFT_DELETED", cloud=mine)
        assert {server["Name"] for server in hidden} == {"old", "kept"}
        stock.do("server", "restore", uuids["kept"], cloud=mine)
        assert time.monotonic() - begun < _INTERVAL_S, "this machine is too slow for the test"
        shown = stock.show("server", "show", uuids["kept"], cloud=mine)
        assert shown["status"] in {"ACTIVE", "SOFT_DELETED"}
        assert "409" in stock.refused("server", "restore", uuids["forced"])
        stock.do("server", "delete", "--force", uuids["forced"], cloud=mine)
        listed = {server["Name"]: server["Status"] for server in stock.show("server", "list", cloud=mine)}
        assert listed.get("kept") == "ACTIVE"
        assert "old" not in listed

        since_the_delete_began = time.monotonic() - begun
        if since_the_delete_began < _INTERVAL_S - 3:
            assert stock.show("server", "show", uuids["old"], cloud=mine)["status"] == "SOFT_DELETED"
        while stock.run("server", "show", uuids["old"], cloud=mine).returncode == 0:
            assert time.monotonic() - begun < _INTERVAL_S + 70
            time.sleep(1)
        assert time.monotonic() - begun > _INTERVAL_S
        assert "No Server found" in stock.refused("server", "show", uuids["forced"])
        actions = stock.show("server", "event", "list", uuids["old"], cloud=mine)
        assert [each["Action"] for each in actions] == ["delete", "create"]
        events = stock.show("server", "event", "show", uuids["old"], actions[0]["Request ID"])["events"]
        assert [each["event"] for each in events] == ["compute_terminate_instance", "compute_soft_delete_instance"]
        log = (stock.supervisor.folder / "log" / "control.log").read_text()
        assert f"Server {uuids['old']} reclaimed: it has been soft-deleted since" in log
        stock.do("server", "delete", "--force", uuids["kept"], cloud=mine)


class TestTenants:
    """The guide's tenant isolation: a key with a suffix, through Placement and through the filter."""

    scenario: ClassVar = "tenant-isolation"

    def test_the_project_of_filter_tenant_id3_has_its_hosts_for_itself(self, stock: StockCloud) -> None:
        made = stock.show("--os-compute-api-version=2.53", "aggregate", "create", "myagg")
        assert made["uuid"]
        for host in ("node1", "node2"):
            stock.do("--os-compute-api-version=2.53", "aggregate", "add", "host", "myagg", host)
        projects = stock.do("project", "list", "-f", "value")
        demo = next(line.split()[0] for line in projects.splitlines() if line.endswith(" demo"))
        stock.do("aggregate", "set", "--property", f"filter_tenant_id3={demo}", "myagg")
        stock.do(
            "server", "create", "--flavor", "m1.tiny", "--image", "tiny", "--max", "4", "theirs", cloud="kilonova-demo"
        )
        stock.do("server", "create", "--flavor", "m1.tiny", "--image", "tiny", "--max", "4", "others")
        assert set(stock.places("theirs").values()) == {"node1", "node2"}
        assert set(stock.places("others").values()) == {"node3", "node4"}
        why = stock.kilonova("explain", "theirs-1")
        assert "require_tenant_aggregate" in why.stdout
        assert "2 hosts, not in an aggregate of the project: node3, node4" in why.stdout


class TestImageModels:
    """Image metadata as conditions of Placement: a mixed cloud, and images that only some of its hosts can run."""

    scenario: ClassVar = "image-models"

    def test_images_go_where_their_device_models_are_at_the_first_attempt(
        self, stock: StockCloud, tmp_path: Path
    ) -> None:
        disk = tmp_path / "disk.raw"
        disk.write_bytes(b"\0" * 4096)
        upload = ("image", "create", "--public", "--disk-format", "raw", "--file", str(disk))
        stock.together(
            (*upload, "--property", "hw_vif_model=e1000", "old-card"),
            (*upload, "--property", "hw_vif_model=e1000", "--property", "hw_video_model=virtio", "no-such-host"),
        )
        stock.do("server", "create", "--flavor", "m1.tiny", "--image", "old-card", "--min", "4", "--max", "4", "card")
        stock.do(*server_create("stranded", image="no-such-host"))
        places = stock.places("card")
        assert len(places) == 4
        assert set(places.values()) == {"old1", "old2"}
        for name in ("card-1", "card-2"):
            (decision,) = json.loads(stock.kilonova("explain", name, "--json").stdout)["decisions"]
            assert decision["chosen"] == places[name]
        fault = stock.show("server", "show", "stranded")["fault"]
        assert fault["message"] == "No valid host was found. transform_image_metadata: 7 of 7 hosts"

        ids = {each["name"]: each["uuid"] for each in stock.show("resource", "provider", "list")}
        old, new = (
            {each["name"] for each in traits}
            for traits in stock.shown_together(
                ("resource", "provider", "trait", "list", ids["old1"]),
                ("resource", "provider", "trait", "list", ids["new1"]),
            )
        )
        assert {"COMPUTE_NODE", "OWNER_NOVA", "HW_ARCH_X86_64", "COMPUTE_NET_VIF_MODEL_VIRTIO"} <= old & new
        assert "COMPUTE_NET_VIF_MODEL_E1000" in old - new
        assert "COMPUTE_NET_VIF_MODEL_IGB" in new - old


class TestImpossible:
    """A server that fits nowhere, with another reason for each group of hosts."""

    scenario: ClassVar = "impossible"
    removed: ClassVar = {
        "compute_status_filter": ["retired1", "retired2"],
        "Placement: VCPU": ["small1", "small2", "small3"],
        "ImagePropertiesFilter": ["arm1", "arm2"],
        "AggregateInstanceExtraSpecsFilter": ["disk1", "disk2", "disk3", "disk4"],
        "AggregateMultiTenancyIsolation": ["ssd1", "ssd2"],
    }

    def test_fault_and_explanation_name_the_rules(self, stock: StockCloud) -> None:
        replay = stock.kilonova("demo", "impossible")
        assert replay.returncode == 0, replay.stdout + replay.stderr
        shown = stock.show("server", "show", "dream")
        assert shown["status"] == "ERROR"
        assert shown["fault"]["message"] == (
            "No valid host was found. compute_status_filter: 2 of 13 hosts, Placement: VCPU: 3 of 11 hosts, "
            "ImagePropertiesFilter: 2 of 8 hosts, AggregateInstanceExtraSpecsFilter: 4 of 6 hosts, "
            "AggregateMultiTenancyIsolation: 2 of 2 hosts"
        )
        told = stock.kilonova("explain", "dream")
        assert told.returncode == 0
        story = " ".join(told.stdout.split())
        for rule, hosts in self.removed.items():
            assert story.partition(rule)[2].partition(": ")[2].startswith(", ".join(hosts)), (rule, story)
        raw = json.loads(stock.kilonova("explain", "dream", "--json").stdout)
        (decision,) = raw["decisions"]
        assert decision["server_id"] == shown["id"]
        by_request = json.loads(stock.kilonova("explain", decision["request_id"], "--json").stdout)
        assert by_request == raw

    def test_a_member_sees_a_fault_without_host_names(self, stock: StockCloud) -> None:
        stock.do(
            "server", "create", "--flavor", "m1.xlarge", "--image", "tiny", "--max", "80", "many", cloud="kilonova-demo"
        )
        stock.places("many")
        fault = stock.show("server", "show", "many-1", cloud="kilonova-demo")["fault"]
        assert fault["message"].startswith("No valid host was found for server ")
        assert not [name for names in self.removed.values() for name in names if name in json.dumps(fault)]

    def test_what_cannot_be_explained(self, stock: StockCloud) -> None:
        unknown = stock.kilonova("explain", "nobody")
        assert (unknown.returncode, unknown.stderr) == (2, "kilonova: no server and no request is called nobody\n")
        member = stock.kilonova("explain", "nobody", "--os-cloud", "kilonova-demo")
        assert member.returncode == 1
        assert member.stderr.startswith("kilonova: Policy doesn't allow kilonova:decisions:show")


class TestIsolation:
    """The article on Trove hosts once more, with a rule in place of a filter: what it asked for and could not get."""

    scenario: ClassVar = "isolation"

    def test_only_trove_servers_on_trove_hosts_and_nowhere_else(self, stock: StockCloud, tmp_path: Path) -> None:
        stock.do("aggregate", "create", "Trove")
        stock.do("aggregate", "add", "host", "Trove", "compute3")
        complaint = stock.refused(
            "aggregate", "set", "--property", "kilonova:only=image:tesora_edition", "Trove", cloud="kilonova"
        )
        assert "kilonova:only: cannot read a condition at 'image:tesora_edition'" in complaint
        stock.do("aggregate", "set", "--property", "kilonova:only=image.tesora_edition", "Trove")
        disk = tmp_path / "disk.raw"
        disk.write_bytes(b"\0" * 4096)
        upload = ("image", "create", "--disk-format", "raw", "--file", str(disk))
        stock.do(*upload, "--public", "--property", "tesora_edition=enterprise", "cirros-tagged")
        stock.do(*upload, "cirros-no-tags", cloud="kilonova-demo")  # a customer's own, which nobody can tag
        many = ("--min", "3", "--max", "3")
        stock.do(*server_create("tagged", image="cirros-tagged"), *many)
        stock.do(*server_create("untagged", image="cirros-no-tags"), *many, cloud="kilonova-demo")
        stock.do(*server_create("forced"), "--availability-zone", "nova:compute3")
        assert list(stock.places("tagged").values()) == ["compute3"] * 3
        untagged = stock.places("untagged")
        assert len(untagged) == 3
        assert set(untagged.values()) == {"compute1", "compute2"}
        assert stock.places("forced") == {"forced": "ERROR"}

        audit = stock.kilonova("audit", "isolation")
        assert audit.returncode == 0, audit.stdout + audit.stderr
        assert "Nothing leaks." in audit.stdout
        report = json.loads(stock.kilonova("audit", "isolation", "--json").stdout)["isolation"]
        (pool,) = report["pools"]
        assert (pool["aggregates"], pool["hosts"]) == (["Trove"], ["compute3"])
        assert {image for group in pool["may_enter"] for image in group["images"]} == {"cirros-tagged"}
        assert report["open_hosts"] == ["compute1", "compute2"]
        assert report["examined"]["images"] >= 3  # the customer's private one is among them
        assert report["examined"]["servers"] == 6

        read = stock.kilonova("audit", "rules")
        assert read.returncode == 0, read.stdout + read.stderr
        assert "Everything that is asked for is read." in read.stdout
        stock.do("image", "set", "--property", "tesora_editon=enterprise", "cirros-tagged")
        read = stock.kilonova("audit", "rules")
        assert read.returncode == 1
        assert "Not read: image cirros-tagged has tesora_editon; nothing reads it" in read.stdout

        stock.do("aggregate", "unset", "--property", "kilonova:only", "Trove")
        stock.do("aggregate", "set", "--property", "kilonova:only.flavors=flavor=m1.tiny", "Trove")
        moved = stock.kilonova("audit", "isolation")
        assert moved.returncode == 1
        assert "leak: stray" in moved.stdout
