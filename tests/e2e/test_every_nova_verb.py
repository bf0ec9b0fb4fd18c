# SPDX-License-Identifier: Apache-2.0
"""Coverage of the subcommands of ``nova``: those that no other test uses run here, on one cloud."""

import time
from pathlib import Path
from typing import ClassVar

import pytest

from e2e import verbs
from e2e.direct_api import DirectApi
from support.stock_cloud import StockCloud

pytestmark = pytest.mark.cloud

DEMO = "kilonova-demo"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHE5S1eWoSlVXPp1v9oGoxSDfJXvZmZmJ8DqzJ1pYh1t somebody@example"
BOOT = ("boot", "--flavor", "m1.tiny", "--image", "tiny", "--nic", "none", "--poll")
NO_NETWORK = "No network service is configured."
NO_VOLUMES = "No volume service is configured."
GONE = "removed from Nova"

#: Subcommand → the test that uses it; add the subcommands of new client versions here.
USED = {
    "test_nova_commands::test_a_server_where_it_is": (
        *("boot", "console-log", "delete", "instance-action-list", "interface-attach", "interface-list", "list"),
        *("list-secgroup", "lock", "meta", "pause", "reboot", "rebuild", "rescue", "resume", "server-tag-add"),
        *("server-tag-delete", "server-tag-list", "start", "stop", "suspend", "trigger-crash-dump", "unlock"),
        *("unpause", "unrescue", "update", "volume-attachments"),
    ),
    "test_nova_commands::test_images_of_a_server_and_what_moves_it": (
        *("backup", "force-delete", "image-create", "instance-action", "live-migration", "migrate", "migration-list"),
        *("reset-state", "resize", "resize-confirm", "resize-revert", "shelve", "unshelve"),
    ),
    "test_nova_commands::test_servers_leave_hosts_and_whole_hosts_are_left": (
        *("evacuate", "host-evacuate", "host-evacuate-live", "service-force-down", "service-list"),
    ),
    "test_every_nova_verb::test_aggregates_flavors_keys_and_groups": (
        *("aggregate-create", "aggregate-update", "aggregate-set-metadata", "aggregate-add-host", "aggregate-list"),
        *("aggregate-show", "aggregate-cache-images", "aggregate-remove-host", "aggregate-delete"),
        *("flavor-create", "flavor-update", "flavor-key", "flavor-access-add", "flavor-access-list", "flavor-show"),
        *("flavor-access-remove", "flavor-list", "flavor-delete"),
        *("keypair-add", "keypair-list", "keypair-show", "keypair-delete"),
        *("server-group-create", "server-group-list", "server-group-get", "server-group-delete"),
    ),
    "test_every_nova_verb::test_quotas_limits_usage_and_versions": (
        *("quota-update", "quota-show", "quota-delete", "quota-defaults", "quota-class-update", "quota-class-show"),
        *("limits", "usage", "usage-list", "version-list", "availability-zone-list", "instance-usage-audit-log"),
    ),
    "test_every_nova_verb::test_hosts_and_services": (
        *("hypervisor-list", "hypervisor-show", "hypervisor-servers", "hypervisor-stats", "hypervisor-uptime"),
        *("service-disable", "service-enable", "service-delete"),
    ),
    "test_every_nova_verb::test_a_server_is_looked_at_and_told": (
        *("show", "diagnostics", "server-topology", "get-vnc-console", "get-spice-console", "get-serial-console"),
        *("get-rdp-console", "get-mks-console", "get-password", "clear-password", "set-password", "host-meta"),
        *("server-tag-set", "server-tag-delete-all", "refresh-network"),
    ),
    "test_every_nova_verb::test_live_migrations_and_a_whole_host": (
        *("server-migration-list", "server-migration-show", "live-migration-abort", "live-migration-force-complete"),
        "host-servers-migrate",
    ),
    "test_every_nova_verb::test_a_server_is_deleted_restored_and_shelved": ("restore", "shelve-offload"),
    "test_every_nova_verb::test_what_needs_another_service_says_so": (
        *("add-secgroup", "remove-secgroup", "interface-detach", "volume-attach", "volume-detach", "volume-update"),
        *("ssh", "reset-network", "agent-create", "agent-delete", "agent-list", "agent-modify"),
    ),
}


def test_every_subcommand_is_used_by_a_test() -> None:
    """Each subcommand has one entry, and the named test uses it."""
    named = [command for commands in USED.values() for command in commands]
    assert sorted(named) == sorted(verbs.nova_commands())
    everywhere = [(test, command) for test, commands in USED.items() for command in commands]
    assert [(test, command) for test, command in everywhere if not verbs.uses(test, command)] == []


class TestEverySubcommand:
    """The remaining subcommands. Deleted servers can be restored for an hour, shelved ones stay on their host."""

    scenario: ClassVar = "moves"
    options: ClassVar = """
reclaim_instance_interval = 3600
shelved_offload_time = -1
[serial_console]
enabled = true
"""

    def test_aggregates_flavors_keys_and_groups(self, stock: StockCloud, tmp_path: Path) -> None:
        nova = stock.nova
        nova("aggregate-create", "cold")
        nova("aggregate-update", "cold", "--name", "warm")
        nova("aggregate-set-metadata", "warm", "ssd=true")
        nova("aggregate-add-host", "warm", "node1")
        assert "warm" in nova("aggregate-list")
        shown = nova("aggregate-show", "warm")
        assert ("'node1'" in shown, "ssd=true" in shown) == (True, True)
        nova("aggregate-cache-images", "warm", _cell(stock.do("image", "show", "tiny"), "id"))
        nova("aggregate-remove-host", "warm", "node1")
        nova("aggregate-delete", "warm")
        assert "warm" not in nova("aggregate-list")

        demo = _cell(stock.do("project", "show", "demo"), "id")
        nova("flavor-create", "odd", "odd-id", "64", "1", "1", "--is-public", "false")
        nova("flavor-update", "odd", "words")
        nova("flavor-key", "odd", "set", "a=b")
        nova("flavor-access-add", "odd", demo)
        assert demo in nova("flavor-access-list", "--flavor", "odd")
        shown = stock.nova("flavor-show", "odd", cloud=DEMO)
        assert (_cell(shown, "description"), _cell(shown, "extra_specs")) == ("words", '{"a": "b"}')
        nova("flavor-access-remove", "odd", demo)
        assert "odd-id" not in stock.nova("flavor-list", cloud=DEMO)
        assert "odd-id" in nova("flavor-list", "--all")
        nova("flavor-delete", "odd")

        (tmp_path / "key.pub").write_text(KEY)
        nova("keypair-add", "mine", "--pub-key", str(tmp_path / "key.pub"))
        assert "mine" in nova("keypair-list")
        assert KEY in nova("keypair-show", "mine")
        nova("keypair-delete", "mine")
        assert "mine" not in nova("keypair-list")

        made = nova("server-group-create", "apart", "anti-affinity", "--rule", "max_server_per_host=2")
        (uuid,) = (row[0] for row in _rows(made)[1:])
        assert "apart" in nova("server-group-list")
        assert "max_server_per_host" in nova("server-group-get", uuid)
        nova("server-group-delete", uuid)
        assert "apart" not in nova("server-group-list")

    def test_quotas_limits_usage_and_versions(self, stock: StockCloud) -> None:
        nova = stock.nova
        demo = _cell(stock.do("project", "show", "demo"), "id")
        nova("quota-update", demo, "--cores", "7")
        assert _cell(nova("quota-show", "--tenant", demo), "cores") == "7"
        nova("quota-delete", "--tenant", demo)
        assert _cell(nova("quota-show", "--tenant", demo), "cores") == _cell(nova("quota-defaults"), "cores")
        nova("quota-class-update", "default", "--cores", "9")
        assert _cell(nova("quota-class-show", "default"), "cores") == "9"
        nova("quota-class-update", "default", "--cores", "-1")
        assert ["Name", "Used", "Max"] in _rows(nova("limits"))
        uuid = _cell(stock.nova(*BOOT, "used", cloud=DEMO), "id")
        assert _rows(stock.nova("usage", cloud=DEMO))[1][0] == "1"
        assert demo in nova("usage-list")
        stock.nova("force-delete", uuid)
        assert "2.1" in nova("version-list")
        assert "internal" in nova("availability-zone-list")
        assert _cell(nova("instance-usage-audit-log"), "num_hosts") == "3"

    def test_hosts_and_services(self, stock: StockCloud) -> None:
        nova = stock.nova
        ids = {row[1]: row[0] for row in _rows(nova("hypervisor-list"))[1:]}
        assert set(ids) == {"node1", "node2", "node3"}
        shown = nova("hypervisor-show", ids["node1"])
        assert _cell(shown, "hypervisor_hostname") == "node1"
        assert _cell(nova("hypervisor-uptime", ids["node1"]), "state") == "up"
        uuid = _cell(nova(*BOOT, "--availability-zone", "nova:node1", "here"), "id")
        assert uuid in nova("hypervisor-servers", "node1")
        nova("force-delete", uuid)
        assert _cell(nova("--os-compute-api-version", "2.87", "hypervisor-stats"), "count") == "3"

        head, *rows = _rows(nova("service-list", "--binary", "nova-compute", "--host", "node2"))
        ((service, *_),) = rows
        assert head[0] == "Id"
        nova("service-disable", service, "--reason", "paint")
        assert "paint" in nova("service-list", "--host", "node2")
        nova("service-enable", service)
        assert "paint" not in nova("service-list", "--host", "node2")
        unknown = "0c2d9f2a-6cb4-4c7c-8a4e-3a3d4b0c3f2e"
        refused = stock.run_nova("service-delete", unknown)
        assert (refused.returncode, unknown in refused.stderr) == (1, True)

    def test_a_server_is_looked_at_and_told(self, stock: StockCloud) -> None:
        nova = stock.nova
        uuid = _cell(nova(*BOOT, "--availability-zone", "nova:node3", "seen"), "id")
        assert _cell(nova("show", uuid), "status") == "ACTIVE"
        assert _cell(nova("diagnostics", uuid), "state") == "running"
        assert "nodes" in nova("server-topology", uuid)
        assert "http://" in nova("get-vnc-console", uuid, "novnc")
        assert "ws://" in nova("get-serial-console", uuid)
        for words in (
            ("get-spice-console", uuid, "spice-html5"),  # SPICE and MKS consoles are disabled
            ("get-mks-console", uuid),
            ("get-rdp-console", uuid, "rdp-html5"),  # RDP consoles were removed from Nova
        ):
            refused = stock.run_nova(*words)
            assert (refused.returncode, "(HTTP 400)" in refused.stderr) == (1, True), (words, refused.stderr)
        assert nova("get-password", uuid).strip() == ""
        nova("clear-password", uuid)
        nova("set-password", uuid, typed="correct-horse\ncorrect-horse\n")
        assert "password of the administrator was set" in nova("console-log", uuid)
        nova("host-meta", "node3", "set", "a=1")
        assert DirectApi(stock.supervisor, "kilonova").server(uuid)["metadata"] == {"a": "1"}
        nova("server-tag-set", uuid, "red", "blue")
        assert "| red " in nova("server-tag-list", uuid)
        nova("server-tag-delete-all", uuid)
        assert "| red " not in nova("server-tag-list", uuid)
        nova("refresh-network", uuid)
        nova("force-delete", uuid)

    def test_live_migrations_and_a_whole_host(self, stock: StockCloud) -> None:
        nova, api = stock.nova, DirectApi(stock.supervisor, "kilonova")
        uuid = _cell(nova(*BOOT, "--availability-zone", "nova:node1", "slow"), "id")
        nova("live-migration", uuid, "node3")
        number = _running(stock, uuid)
        assert _cell(nova("server-migration-show", uuid, number), "dest_compute") == "node3"
        nova("live-migration-abort", uuid, number)
        api.until(uuid, "ACTIVE")
        nova("live-migration", uuid, "node3")
        nova("live-migration-force-complete", uuid, _running(stock, uuid))
        api.until(uuid, "ACTIVE")
        assert api.server(uuid)["OS-EXT-SRV-ATTR:host"] == "node3"
        assert uuid in nova("host-servers-migrate", "node3")
        api.until(uuid, "VERIFY_RESIZE")
        nova("force-delete", uuid)

    def test_a_server_is_deleted_restored_and_shelved(self, stock: StockCloud) -> None:
        nova, api = stock.nova, DirectApi(stock.supervisor, "kilonova")
        uuid = _cell(nova(*BOOT, "kept"), "id")
        nova("delete", uuid)
        api.until(uuid, "SOFT_DELETED")
        nova("restore", uuid)
        api.until(uuid, "ACTIVE")
        nova("shelve", uuid)
        api.until(uuid, "SHELVED")
        nova("shelve-offload", uuid)
        api.until(uuid, "SHELVED_OFFLOADED")
        nova("force-delete", uuid)

    def test_what_needs_another_service_says_so(self, stock: StockCloud) -> None:
        uuid = _cell(stock.nova(*BOOT, "lonely"), "id")
        for words, complaint in (
            (("add-secgroup", uuid, "web"), NO_NETWORK),
            (("remove-secgroup", uuid, "web"), NO_NETWORK),
            (("interface-detach", uuid, "port"), f"Instance {uuid} does not have a port with id port"),
            (("volume-attach", uuid, "disk"), NO_VOLUMES),
            (("volume-detach", uuid, "disk"), f"Instance {uuid} has no volume disk."),
            (("volume-update", uuid, "disk", "other"), f"Instance {uuid} has no volume disk."),
            (("ssh", uuid), "is not attached to any network"),
            (("reset-network", uuid), GONE),
            (("agent-list",), GONE),
            (("agent-create", "os", "arch", "1", "url", "md5", "kvm"), GONE),
            (("agent-modify", "1", "2", "url", "md5"), GONE),
            (("agent-delete", "1"), GONE),
        ):
            refused = stock.run_nova(*words)
            assert (refused.returncode, complaint in refused.stderr) == (1, True), (words, refused.stderr)
        stock.nova("force-delete", uuid)


def _running(stock: StockCloud, uuid: str) -> str:
    """Wait until a live migration of a server is running, and return its id."""
    deadline = time.monotonic() + 30
    while True:
        head, *rows = _rows(stock.nova("server-migration-list", uuid))
        assert time.monotonic() < deadline, rows
        for row in rows:
            if row[head.index("Status")] == "running":
                return row[head.index("Id")]


def _rows(printed: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line.startswith("|")]


def _cell(printed: str, name: str) -> str:
    """Return the value of a name in a table with two columns."""
    return next(row[1] for row in _rows(printed) if row[0] == name)
