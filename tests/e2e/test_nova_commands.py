# SPDX-License-Identifier: Apache-2.0
"""Server attributes with the stock client, and server actions with the legacy client ``nova``."""

import re
import socket
import time
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from e2e.direct_api import DirectApi
from support.drives import Drive, find_drive
from support.stock_cloud import StockCloud

pytestmark = pytest.mark.cloud

DEMO = "kilonova-demo"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHE5S1eWoSlVXPp1v9oGoxSDfJXvZmZmJ8DqzJ1pYh1t somebody@example"
BOOT = ("boot", "--flavor", "m1.tiny", "--image", "tiny", "--nic", "none", "--poll")


def drive_of(stock: StockCloud, uuid: str) -> Drive:
    """Read the config drive of a server from the folder of its simulated host."""
    (folder,) = {each.parent.parent for each in stock.supervisor.folder.rglob("config_drives/*")}
    found = find_drive(folder, uuid)
    assert found is not None
    return found


class TestWhatIsNotedOfServers:
    """Names, metadata, tags and the guest's metadata, with ``openstack``."""

    scenario: ClassVar = "moves"

    def test_set_unset_and_a_config_drive(self, stock: StockCloud, tmp_path: Path) -> None:
        (tmp_path / "key.pub").write_text(KEY)
        (tmp_path / "script").write_text("#!/bin/sh\necho hello\n")

        def do(*words: str) -> str:
            return stock.do(*words, cloud=DEMO)

        do("keypair", "create", "--public-key", str(tmp_path / "key.pub"), "mine")
        given = ("--property", "a=1", "--tag", "red", "--key-name", "mine", "--user-data", str(tmp_path / "script"))
        asked = ("--flavor", "m1.tiny", "--image", "tiny", "--config-drive", "True", *given, "--wait", "noted")
        made = stock.show("server", "create", *asked, cloud=DEMO)
        uuid, password = made["id"], made["adminPass"]
        assert made["config_drive"] == "True"
        drive = drive_of(stock, uuid)
        assert drive.label == "config-2"
        data = drive.json("openstack/latest/meta_data.json")
        assert (data["uuid"], data["name"], data["meta"]) == (uuid, "noted", {"a": "1"})
        assert (data["public_keys"], data["admin_pass"]) == ({"mine": KEY}, password)
        assert drive.files["openstack/latest/user_data"] == b"#!/bin/sh\necho hello\n"

        do("server", "set", "--property", "b=2", "--property", "a=3", "--tag", "blue", "--name", "renamed", uuid)
        do("server", "set", "--description", "words", "--hostname", "web", "renamed")
        shown = stock.show("server", "show", uuid, cloud=DEMO)
        assert (shown["name"], shown["description"], shown["properties"]) == ("renamed", "words", {"a": "3", "b": "2"})
        assert (sorted(shown["tags"]), shown["OS-EXT-SRV-ATTR:hostname"]) == (["blue", "red"], "web")
        assert [each["ID"] for each in stock.show("server", "list", "--tags", "blue,red", cloud=DEMO)] == [uuid]
        do("server", "unset", "--property", "a", "--tag", "red", "--description", uuid)
        shown = stock.show("server", "show", uuid, cloud=DEMO)
        assert (shown["description"], shown["properties"], shown["tags"]) == ("", {"b": "2"}, ["blue"])
        assert stock.show("server", "volume", "list", uuid, cloud=DEMO) == []
        do("server", "delete", "--wait", uuid)
        assert not list(stock.supervisor.folder.rglob(f"{uuid}.iso"))


class TestActionsOfServers:
    """All server actions with ``nova``, except those that prompt for a password."""

    scenario: ClassVar = "moves"

    def test_a_server_where_it_is(self, stock: StockCloud) -> None:
        def nova(*words: str) -> str:
            return stock.nova(*words, cloud=DEMO)

        uuid = _id(nova(*BOOT, "--meta", "a=1", "patient"))
        api = DirectApi(stock.supervisor)
        for words, status in (
            (("stop", "patient"), "SHUTOFF"),
            (("start", "patient"), "ACTIVE"),
            (("reboot", "patient"), "ACTIVE"),
            (("reboot", "--hard", "patient"), "ACTIVE"),
            (("pause", "patient"), "PAUSED"),
            (("unpause", "patient"), "ACTIVE"),
            (("suspend", "patient"), "SUSPENDED"),
            (("resume", "patient"), "ACTIVE"),
            (("rescue", "patient"), "RESCUE"),
            (("unrescue", "patient"), "ACTIVE"),
            (("rebuild", "patient", "tiny"), "ACTIVE"),
            (("trigger-crash-dump", "patient"), "ACTIVE"),
        ):
            nova(*words)
            api.until(uuid, status)
        nova("lock", "--reason", "hands off", "patient")
        assert api.server(uuid)["locked_reason"] == "hands off"
        nova("unlock", "patient")
        nova("meta", "patient", "set", "b=2")
        nova("meta", "patient", "delete", "a")
        nova("server-tag-add", "patient", "red", "blue")
        nova("server-tag-delete", "patient", "red")
        nova("update", "--name", "renamed", "--description", "words", "patient")
        shown = api.server(uuid)
        assert (shown["name"], shown["description"], shown["metadata"]) == ("renamed", "words", {"b": "2"})
        assert shown["tags"] == ["blue"]
        assert "first start" in nova("console-log", uuid)
        assert "| blue |" in nova("server-tag-list", uuid)
        for words in (("interface-list", uuid), ("volume-attachments", uuid), ("list-secgroup", uuid)):
            assert uuid not in nova(*words)
        refused = stock.run_nova("interface-attach", "--net-id", uuid, uuid, cloud=DEMO)
        assert (refused.returncode, "No network service is configured" in refused.stderr) == (1, True)
        done = _column(nova("instance-action-list", uuid), "Action")
        assert done[0] == "create"
        assert {"stop", "start", "reboot", "pause", "unpause", "suspend", "resume", "rescue", "unrescue"} < set(done)
        assert {"rebuild", "trigger_crash_dump", "lock", "unlock"} < set(done)
        nova("delete", uuid)
        _until_gone(stock, uuid)

    def test_the_console_the_password_and_the_state_of_a_guest(self, stock: StockCloud, tmp_path: Path) -> None:
        """Connect by VNC to the address behind the console URL."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        for name, data in (("key.pub", public), ("key", private)):
            (tmp_path / name).write_bytes(data)
        stock.nova("keypair-add", "--pub-key", str(tmp_path / "key.pub"), "rsa", cloud=DEMO)
        uuid = _id(stock.nova(*BOOT, "--key-name", "rsa", "talkative", cloud=DEMO))
        for shown in (
            stock.show("console", "url", "show", "--novnc", uuid, cloud=DEMO)["url"],
            _column(stock.nova("get-vnc-console", uuid, "novnc", cloud=DEMO), "Url")[0],
        ):
            path = parse_qs(urlsplit(shown).query)["path"][0]
            token = parse_qs(path.lstrip("?"))["token"][0]
            api = DirectApi(stock.supervisor, "kilonova")
            console = api.get(f"/os-console-auth-tokens/{token}").json()["console"]
            assert console["instance_uuid"] == uuid
            with socket.create_connection((console["host"], console["port"]), timeout=10) as viewer:
                assert viewer.recv(12) == b"RFB 003.008\n"
        assert _column(stock.nova("get-serial-console", uuid, cloud=DEMO), "Url")[0].startswith("ws://127.0.0.1:")
        refused = stock.run_nova("get-spice-console", uuid, "spice-html5", cloud=DEMO)
        assert (refused.returncode, "Unavailable console type spice-html5" in refused.stderr) == (1, True)
        assert stock.show("server", "show", "--diagnostics", uuid)["state"] == "running"
        assert "running" in stock.nova("diagnostics", uuid)
        assert "nodes" in stock.nova("server-topology", uuid, cloud=DEMO)
        user = DirectApi(stock.supervisor)
        user.act(uuid, {"changePassword": {"adminPass": "correct horse"}})
        user.until(uuid, "ACTIVE")
        assert "correct horse" in stock.nova("get-password", uuid, str(tmp_path / "key"), cloud=DEMO)
        stock.nova("clear-password", uuid, cloud=DEMO)
        assert "correct horse" not in stock.nova("get-password", uuid, str(tmp_path / "key"), cloud=DEMO)
        stock.nova("delete", uuid, cloud=DEMO)
        stock.nova("keypair-delete", "rsa", cloud=DEMO)

    def test_images_of_a_server_and_what_moves_it(self, stock: StockCloud) -> None:
        nova, api = stock.nova, DirectApi(stock.supervisor, "kilonova")
        uuid = _id(nova(*BOOT, "--availability-zone", "nova:node3", "mover"))
        for words, status in (
            (("image-create", uuid, "copy"), "ACTIVE"),
            (("backup", uuid, "daily", "daily", "1"), "ACTIVE"),
            (("resize", uuid, "m1.small"), "VERIFY_RESIZE"),
            (("resize-revert", uuid), "ACTIVE"),
            (("resize", uuid, "m1.small"), "VERIFY_RESIZE"),
            (("resize-confirm", uuid), "ACTIVE"),
            (("migrate", "--host", "node3", uuid), "VERIFY_RESIZE"),
            (("resize-confirm", uuid), "ACTIVE"),
            (("live-migration", uuid, "node2"), "ACTIVE"),
            (("reset-state", uuid), "ERROR"),
            (("reset-state", "--active", uuid), "ACTIVE"),
        ):
            nova(*words)
            api.until(uuid, status)
        assert api.server(uuid)["OS-EXT-SRV-ATTR:host"] == "node2"
        nova("shelve", uuid)
        api.until(uuid, "SHELVED_OFFLOADED")
        nova("unshelve", uuid)
        api.until(uuid, "ACTIVE")
        assert {"copy", "daily"} <= {each["Name"] for each in stock.show("image", "list")}
        assert "live-migration" in nova("migration-list", "--instance-uuid", uuid)
        listed = nova("instance-action-list", uuid)
        actions = _column(listed, "Action")
        assert actions[1:12] == [
            *("createImage", "createBackup", "resize", "revertResize", "resize", "confirmResize", "migrate"),
            *("confirmResize", "live-migration", "resetState", "resetState"),
        ]
        assert actions[12:] == ["shelve", "unshelve"]
        for action in {*actions}:
            request_id = _request_of(listed, action)
            assert f"| {action} " in nova("instance-action", uuid, request_id)
        nova("force-delete", uuid)
        _until_gone(stock, uuid)

    def test_servers_leave_hosts_and_whole_hosts_are_left(self, stock: StockCloud) -> None:
        nova, api = stock.nova, DirectApi(stock.supervisor, "kilonova")
        uuid = _id(nova(*BOOT, "--availability-zone", "nova:node3", "leaver"))

        def leave(*words: str, status: str) -> str:
            """Run a command that moves the server, and return its new host."""
            before = api.server(uuid)["OS-EXT-SRV-ATTR:host"]
            nova(*words)
            deadline = time.monotonic() + 30
            while (host := api.server(uuid)["OS-EXT-SRV-ATTR:host"]) == before:
                assert time.monotonic() < deadline, "the server stays on its host"
                time.sleep(0.05)
            api.until(uuid, status)
            return str(host)

        host = leave("host-evacuate-live", "--strict", "node3", status="ACTIVE")
        refused = stock.run_nova("evacuate", uuid)
        assert (refused.returncode, "still in use" in refused.stderr) == (1, True)
        for words in (("host-evacuate", "--strict"), ("--os-compute-api-version", "2.94", "evacuate")):
            service = _service_of(nova("service-list", "--host", host))
            nova("service-force-down", service)
            left, target = host, uuid if words[-1] == "evacuate" else host
            host = leave(*words, target, status="SHUTOFF")
            nova("service-force-down", "--unset", service)
            assert f"| {left} " in nova("migration-list", "--instance-uuid", uuid, "--migration-type", "evacuation")
        nova("force-delete", uuid)
        _until_gone(stock, uuid)


def _id(shown: str) -> str:
    return next(row[1] for row in _rows(shown) if row[0] == "id")


def _rows(printed: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line.startswith("|")]


def _column(printed: str, name: str) -> list[str]:
    """Return a column of a table of actions, oldest first."""
    head, *rows = _rows(printed)
    return [row[head.index(name)] for row in rows]


def _request_of(printed: str, action: str) -> str:
    return next(row[1] for row in _rows(printed) if row[0] == action and re.fullmatch(r"req-[0-9a-f-]+", row[1]))


def _service_of(printed: str) -> str:
    """Return the id of the only compute service in the list."""
    head, *rows = _rows(printed)
    (service,) = (row[head.index("Id")] for row in rows if row[head.index("Binary")] == "nova-compute")
    return service


def _until_gone(stock: StockCloud, uuid: str) -> None:
    deadline = time.monotonic() + 30
    while uuid in stock.nova("list", "--all-tenants"):
        assert time.monotonic() < deadline, "the server is still listed"
