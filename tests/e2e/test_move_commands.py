# SPDX-License-Identifier: Apache-2.0
"""Resizes and migrations with the stock client, its output during them, and actions that keep a server on its host."""

import time
from functools import partial
from typing import Any, ClassVar

import pytest

from e2e.direct_api import DirectApi
from support.stock_cloud import StockCloud

pytestmark = pytest.mark.cloud

DEMO = "kilonova-demo"
BOOT = ("server", "create", "--flavor", "m1.tiny", "--image", "tiny", "--wait")


def boot(stock: StockCloud, name: str, *, host: str | None = None) -> str:
    """Boot a server as the administrator, on ``host`` if given, and return its id."""
    where = () if host is None else ("--availability-zone", f"nova:{host}")
    return str(stock.show(*BOOT, *where, name)["id"])


def server(stock: StockCloud, uuid: str) -> tuple[str, str, str]:
    """Return status, host and flavor from the administrator's view."""
    shown = stock.show("server", "show", uuid)
    return shown["status"], shown["OS-EXT-SRV-ATTR:host"], shown["flavor"]["name"]


def until(stock: StockCloud, uuid: str, status: str) -> tuple[str, str, str]:
    deadline = time.monotonic() + 30
    while (found := server(stock, uuid))[0] != status:
        assert time.monotonic() < deadline, found
    return found


def live(stock: StockCloud, uuid: str) -> list[dict[str, Any]]:
    """Return the live migrations of a server, newest first."""
    only = ("--type", "live-migration")
    listed: list[dict[str, Any]] = stock.show("server", "migration", "list", "--server", uuid, *only)
    return listed


def running(stock: StockCloud, uuid: str) -> dict[str, Any]:
    """Wait until the newest live migration of a server is running."""
    deadline = time.monotonic() + 30
    while (newest := live(stock, uuid)[0])["Status"] != "running":
        assert time.monotonic() < deadline, newest
    return newest


class TestMoves:
    """Moves. Live migrations from node1 and node2 take ten minutes, those from node3 no time."""

    scenario: ClassVar = "moves"

    def test_a_user_resizes_confirms_and_goes_back(self, stock: StockCloud) -> None:
        uuid = stock.show(*BOOT, "resized", cloud=DEMO)["id"]
        _, home, _ = server(stock, uuid)
        stock.do("server", "resize", "--flavor", "m1.small", "--wait", uuid, cloud=DEMO)
        status, host, flavor = server(stock, uuid)
        assert (status, flavor) == ("VERIFY_RESIZE", "m1.small")
        assert host != home
        stock.do("server", "resize", "revert", uuid, cloud=DEMO)
        assert until(stock, uuid, "ACTIVE") == ("ACTIVE", home, "m1.tiny")
        stock.do("server", "resize", "--flavor", "m1.small", "--wait", uuid, cloud=DEMO)
        stock.do("server", "resize", "confirm", uuid, cloud=DEMO)
        assert until(stock, uuid, "ACTIVE")[2] == "m1.small"

        assert "cannot be made smaller" in stock.refused("server", "resize", "--flavor", "m1.tiny", uuid)
        assert "403" in stock.refused("server", "migrate", uuid)
        listed = stock.show("server", "event", "list", uuid, cloud=DEMO)
        assert [each["Action"] for each in listed] == ["confirmResize", "resize", "revertResize", "resize", "create"]
        event = stock.show("server", "event", "show", uuid, listed[1]["Request ID"])
        steps = {each["event"]: each["result"] for each in event["events"]}
        assert steps["compute_resize_instance"] == steps["compute_finish_resize"] == "Success"
        stock.do("server", "delete", "--wait", uuid, cloud=DEMO)
        assert stock.show("server", "event", "list", uuid, cloud=DEMO)[0]["Action"] == "delete"

    def test_a_cold_migration_and_its_way_back(self, stock: StockCloud) -> None:
        uuid = boot(stock, "cold", host="node3")
        stock.do("server", "migrate", "--host", "node2", "--wait", uuid)
        assert server(stock, uuid) == ("VERIFY_RESIZE", "node2", "m1.tiny")
        stock.do("server", "migration", "revert", uuid)
        assert until(stock, uuid, "ACTIVE") == ("ACTIVE", "node3", "m1.tiny")
        stock.do("server", "migrate", "--wait", uuid)
        stock.do("server", "migration", "confirm", uuid)
        assert until(stock, uuid, "ACTIVE")[1] != "node3"
        listed = stock.show("server", "migration", "list", "--server", uuid)
        assert [(each["Type"], each["Status"]) for each in listed] == [
            ("migration", "confirmed"),
            ("migration", "reverted"),
        ]
        assert (listed[1]["Source Compute"], listed[1]["Dest Compute"]) == ("node3", "node2")

    def test_servers_leave_a_host_that_is_declared_down_and_are_rebuilt(self, stock: StockCloud) -> None:
        uuid = boot(stock, "left", host="node3")
        assert "still in use" in stock.refused("server", "evacuate", uuid, cloud="kilonova")
        stock.do("compute", "service", "set", "--down", "node3", "nova-compute")
        (service,) = stock.show("compute", "service", "list", "--long", "--host", "node3")
        assert (service["State"], service["Forced Down"]) == ("down", True)
        assert "can't be the same" in stock.refused("server", "evacuate", "--host", "node3", uuid, cloud="kilonova")
        assert "could not be found" in stock.refused("server", "evacuate", "--host", "node9", uuid, cloud="kilonova")
        stock.do("--os-compute-api-version", "2.94", "server", "evacuate", "--host", "node2", uuid)
        assert until(stock, uuid, "ACTIVE")[1] == "node2"
        (listed,) = stock.show("server", "migration", "list", "--server", uuid, "--type", "evacuation")
        assert (listed["Status"], listed["Source Compute"], listed["Dest Compute"]) == ("completed", "node3", "node2")
        stock.do("compute", "service", "set", "--up", "node3", "nova-compute")
        (service,) = stock.show("compute", "service", "list", "--host", "node3")
        assert service["State"] == "up"

        stock.do("server", "rebuild", "--image", "tiny", "--name", "anew", "--property", "a=b", "--wait", uuid)
        shown = stock.show("server", "show", uuid)
        assert (shown["name"], shown["status"], shown["properties"]) == ("anew", "ACTIVE", {"a": "b"})
        assert shown["OS-EXT-SRV-ATTR:host"] == "node2"
        listed = [each["Action"] for each in stock.show("server", "event", "list", uuid)]
        assert listed[:2] == ["rebuild", "evacuate"]

    def test_a_live_migration_is_watched_aborted_and_forced(self, stock: StockCloud) -> None:
        uuid = boot(stock, "live", host="node3")
        elsewhere = ("server", "migrate", "--live-migration", "--host", "elsewhere", uuid)
        assert "could not be found" in stock.refused(*elsewhere, cloud="kilonova")
        stock.do("server", "migrate", "--live-migration", "--host", "node1", "--wait", uuid)
        assert server(stock, uuid) == ("ACTIVE", "node1", "m1.tiny")

        stock.do("server", "migrate", "--live-migration", uuid)
        found = running(stock, uuid)
        assert server(stock, uuid)[:2] == ("MIGRATING", "node1")
        number = str(found["Id"])
        # the client confuses a migration's numeric id with its UUID
        shown = stock.show("server", "migration", "show", uuid, found["UUID"])
        assert (shown["Status"], shown["Source Compute"], shown["UUID"]) == ("running", "node1", found["UUID"])
        assert shown["Memory Total Bytes"] == 512 << 20
        stock.do("server", "migration", "abort", uuid, number)
        assert until(stock, uuid, "ACTIVE")[1] == "node1"

        stock.do("server", "migrate", "--live-migration", "--host", "node3", uuid)
        number = str(running(stock, uuid)["Id"])
        stock.do("server", "migration", "force", "complete", uuid, number)
        assert until(stock, uuid, "ACTIVE")[1] == "node3"
        assert [each["Status"] for each in live(stock, uuid)] == ["completed", "cancelled", "completed"]
        actions = [each["Action"] for each in stock.show("server", "event", "list", uuid)]
        assert actions == [
            "live_migration_force_complete",
            "live-migration",
            "live_migration_cancel",
            "live-migration",
            "live-migration",
            "create",
        ]


class TestOneServerWhereItIs:
    """All actions of a user that keep the server on its host, in the same cloud."""

    scenario: ClassVar = "moves"

    def test_it_stands_still_is_locked_rescued_and_looked_into(self, stock: StockCloud) -> None:
        api, as_user = DirectApi(stock.supervisor), partial(stock.do, cloud=DEMO)
        uuid = stock.show(*BOOT, "looked-after", cloud=DEMO)["id"]
        for command, status in (
            ("pause", "PAUSED"),
            ("unpause", "ACTIVE"),
            ("suspend", "SUSPENDED"),
            ("resume", "ACTIVE"),
        ):
            as_user("server", command, uuid)
            api.until(uuid, status)
        as_user("server", "lock", "--reason", "being looked at", uuid)
        assert "is locked" in stock.refused("server", "rescue", uuid)
        shown = api.server(uuid)
        assert (shown["locked"], shown["locked_reason"]) == (True, "being looked at")
        as_user("server", "unlock", uuid)

        as_user("server", "rescue", "--image", "tiny", "--password", "correct-horse", uuid)
        api.until(uuid, "RESCUE")
        assert "rescue from image" in as_user("console", "log", "show", uuid)
        assert "vm_state rescued" in stock.refused("server", "stop", uuid)
        as_user("server", "unrescue", uuid)
        api.until(uuid, "ACTIVE")

        as_user("server", "set", "--password", "another-horse", uuid)
        api.until(uuid, "ACTIVE")
        as_user("server", "dump", "create", uuid)
        last = as_user("console", "log", "show", "--lines", "2", uuid).splitlines()
        assert [line.partition("] ")[2] for line in last if line] == [
            "The password of the administrator was set",
            "Non-maskable interrupt: a crash dump was written",
        ]
        for state in ("error", "active"):
            stock.do("server", "set", "--auto-approve", "--state", state, uuid)
            assert api.server(uuid)["status"] == state.upper()
        assert "os-admin-actions:reset_state" in stock.refused(
            "server", "set", "--auto-approve", "--state", "error", uuid
        )
        actions = [each["Action"] for each in stock.show("server", "event", "list", uuid, cloud=DEMO)]
        assert actions == [
            *("resetState", "resetState", "trigger_crash_dump", "changePassword", "unrescue", "rescue"),
            *("unlock", "lock", "resume", "suspend", "unpause", "pause", "create"),
        ]
