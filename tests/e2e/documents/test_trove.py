# SPDX-License-Identifier: Apache-2.0
"""The articles on Trove hosts, notifications and soft deletes, executed with the stock client in one cloud."""

import json
import os
import time
from pathlib import Path
from typing import ClassVar

import pytest

from e2e.commands import server_create
from support.stock_cloud import StockCloud

pytestmark = pytest.mark.cloud


_INTERVAL_S = 20
_RECLAIM = f"""reclaim_instance_interval = {_INTERVAL_S}
[notifications]
file = notifications.json
notification_format = versioned"""


class TestTrove:
    """The article on Trove hosts: a custom filter, three computes, six servers."""

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
    """The page on notifications: a file receives a server's notifications, in the cloud of the article on Trove."""

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
    """The article on soft deletes and reclaim_instance_interval, in the cloud of the article on Trove."""

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
