# SPDX-License-Identifier: Apache-2.0
"""Coverage of the compute commands of ``openstack``: those that no other test uses run here, on one cloud."""

from collections.abc import Sequence
from typing import ClassVar

import pytest

from e2e import verbs
from e2e.direct_api import DirectApi
from kilonova.identifiers import new_uuid
from support.stock_cloud import StockCloud

pytestmark = pytest.mark.cloud

DEMO = "kilonova-demo"
ADMIN = "kilonova"
BOOT = ("server", "create", "--flavor", "m1.tiny", "--image", "tiny", "--wait")
NO_NETWORK = "No network service is configured."
NO_CATALOG = "The service is not present in the service catalog"
GONE = "removed from Nova"

#: Command → the test that uses it; add the commands of new client versions here.
USED = {
    "test_host_aggregates::test_only_the_hosts_with_ssds_take_the_ssd_flavor": (
        *("aggregate create", "aggregate set", "aggregate add host", "aggregate show"),
        *("flavor create", "flavor set", "flavor show", "server create"),
    ),
    "test_host_aggregates::test_the_commands_for_daily_use": (
        *("aggregate list", "aggregate unset", "aggregate remove host", "aggregate delete"),
    ),
    "test_host_aggregates::test_services_hypervisors_and_zones_are_listed": (
        *("availability zone list", "compute service list", "hypervisor list"),
    ),
    "test_host_aggregates::test_a_plain_member_may_neither_arrange_hosts_nor_see_strangers": (
        *("compute service set", "server list", "server show"),
    ),
    "test_host_aggregates::test_a_server_lives_and_dies": ("server reboot", "server delete"),
    "test_trove::test_a_deleted_server_can_be_restored_until_it_is_reclaimed": (
        *("server restore", "server event list", "server event show"),
    ),
    "test_move_commands::test_it_stands_still_is_locked_rescued_and_looked_into": (
        *("console log show", "server dump create", "server lock", "server unlock", "server rescue"),
        *("server unrescue", "server set", "server stop"),
    ),
    "test_move_commands::test_servers_leave_a_host_that_is_declared_down_and_are_rebuilt": (
        *("server evacuate", "server rebuild"),
    ),
    "test_move_commands::test_a_user_resizes_confirms_and_goes_back": (
        *("server resize", "server resize confirm", "server resize revert", "server migrate"),
    ),
    "test_move_commands::test_a_live_migration_is_watched_aborted_and_forced": (
        *("server migration abort", "server migration force complete", "server migration show"),
    ),
    "test_move_commands::test_a_cold_migration_and_its_way_back": (
        *("server migration confirm", "server migration list", "server migration revert"),
    ),
    "test_nova_commands::test_set_unset_and_a_config_drive": (
        *("keypair create", "server unset", "server volume list"),
    ),
    "test_quota_commands::test_a_project_is_kept_to_its_limits_and_told_what_is_short": (
        *("limits show", "quota set", "quota show"),
    ),
    "test_images_by_ticket::test_images_backups_and_shelved_servers_with_the_stock_clients": (
        *("server backup create", "server image create", "server shelve", "server unshelve"),
    ),
    "test_every_openstack_verb::test_flavors_keys_groups_and_quotas": (
        *("flavor list", "flavor unset", "flavor delete", "keypair list", "keypair show", "keypair delete"),
        *("server group create", "server group list", "server group show", "server group delete"),
        *("quota list", "quota delete", "aggregate cache image"),
    ),
    "test_every_openstack_verb::test_a_server_is_halted_moved_and_looked_at": (
        *("server pause", "server unpause", "server suspend", "server resume", "server start"),
        *("server migrate confirm", "server migrate revert", "console url show", "console connection show"),
    ),
    "test_every_openstack_verb::test_hosts_hypervisors_and_services": (
        *("hypervisor show", "hypervisor stats show", "compute service delete", "host list", "host set", "host show"),
    ),
    "test_every_openstack_verb::test_usage_and_what_the_cloud_says_of_itself": (
        *("usage list", "usage show", "extension list", "versions show", "configuration show"),
        *("project cleanup", "cloud cache delete"),
    ),
    "test_every_openstack_verb::test_what_needs_another_service_says_so": (
        *("server add fixed ip", "server add floating ip", "server add network", "server add port"),
        *("server add security group", "server add share", "server add volume"),
        *("server remove fixed ip", "server remove floating ip", "server remove network", "server remove port"),
        *("server remove security group", "server remove share", "server remove volume"),
        *("server share list", "server share show", "server ssh", "server volume set", "server volume update"),
        *("compute agent create", "compute agent delete", "compute agent list", "compute agent set"),
        "extension show",
    ),
}


def test_every_command_is_used_by_a_test() -> None:
    """Each command has one entry, and the words of the command occur in the named test."""
    named = [command for commands in USED.values() for command in commands]
    assert sorted(named) == sorted(verbs.openstack_commands())
    everywhere = [(test, command) for test, commands in USED.items() for command in commands]
    assert [(test, command) for test, command in everywhere if not verbs.uses(test, command)] == []


class TestEveryVerb:
    """The remaining commands."""

    scenario: ClassVar = "moves"

    def test_flavors_keys_groups_and_quotas(self, stock: StockCloud) -> None:
        stock.do("flavor", "create", "--ram", "64", "--disk", "1", "--vcpus", "1", "--property", "a:b=c", "odd")
        assert "odd" in {each["Name"] for each in stock.show("flavor", "list", "--all")}
        stock.do("flavor", "unset", "--property", "a:b", "odd")
        assert stock.show("flavor", "show", "odd")["properties"] == {}
        stock.do("flavor", "delete", "odd")
        assert "odd" not in {each["Name"] for each in stock.show("flavor", "list", "--all")}

        private = stock.do("keypair", "create", "made", cloud=DEMO)
        assert private.startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
        (listed,) = (each for each in stock.show("keypair", "list", cloud=DEMO) if each["Name"] == "made")
        shown = stock.show("keypair", "show", "made", cloud=DEMO)
        assert (shown["name"], shown["fingerprint"]) == ("made", listed["Fingerprint"])
        assert stock.do("keypair", "show", "--public-key", "made", cloud=DEMO).startswith("ssh-")
        stock.do("keypair", "delete", "made", cloud=DEMO)
        assert "made" in stock.refused("keypair", "show", "made")

        rules = ("--policy", "anti-affinity", "--rule", "max_server_per_host=2")
        made = stock.show("server", "group", "create", *rules, "apart", cloud=DEMO)
        (listed,) = stock.show("server", "group", "list", cloud=DEMO)
        assert (listed["ID"], listed["Policy"]) == (made["id"], "anti-affinity")
        uuid = stock.show(*BOOT, "--hint", f"group={made['id']}", "member", cloud=DEMO)["id"]
        shown = stock.show("server", "group", "show", "apart", cloud=DEMO)
        assert (shown["members"], shown["rules"]) == ([uuid], {"max_server_per_host": 2})
        stock.do("server", "delete", "--wait", uuid, cloud=DEMO)
        stock.do("server", "group", "delete", "apart", cloud=DEMO)
        assert stock.show("server", "group", "list", cloud=DEMO) == []

        stock.do("quota", "set", "--cores", "7", "demo")
        (listed,) = stock.show("quota", "list", "--compute")
        assert listed["Cores"] == 7
        stock.do("quota", "delete", "--compute", "demo")
        assert stock.show("quota", "list", "--compute") == []

        stock.do("aggregate", "create", "warm")
        stock.do("aggregate", "add", "host", "warm", "node1")
        stock.do("aggregate", "cache", "image", "warm", "tiny")
        stock.do("aggregate", "remove", "host", "warm", "node1")
        stock.do("aggregate", "delete", "warm")

    def test_a_server_is_halted_moved_and_looked_at(self, stock: StockCloud) -> None:
        uuid = stock.show(*BOOT, "halted")["id"]
        api = DirectApi(stock.supervisor, ADMIN)
        for words, status in (
            (("server", "pause"), "PAUSED"),
            (("server", "unpause"), "ACTIVE"),
            (("server", "suspend"), "SUSPENDED"),
            (("server", "resume"), "ACTIVE"),
            (("server", "stop"), "SHUTOFF"),
            (("server", "start"), "ACTIVE"),
            (("server", "migrate", "--wait"), "VERIFY_RESIZE"),
            (("server", "migrate", "revert"), "ACTIVE"),
            (("server", "migrate", "--wait"), "VERIFY_RESIZE"),
            (("server", "migrate", "confirm"), "ACTIVE"),
        ):
            stock.do(*words, uuid)
            api.until(uuid, status)
        console = stock.show("console", "url", "show", "--novnc", uuid)
        assert (console["protocol"], console["type"]) == ("vnc", "novnc")
        token = console["url"].rpartition("token%3D")[2] or console["url"].rpartition("token=")[2]
        shown = stock.show("console", "connection", "show", token)
        assert shown["instance_uuid"] == uuid
        stock.do("server", "delete", "--wait", uuid)

    def test_hosts_hypervisors_and_services(self, stock: StockCloud) -> None:
        shown = stock.show("hypervisor", "show", "node1")
        assert (shown["hypervisor_hostname"], shown["state"]) == ("node1", "up")
        assert stock.show("hypervisor", "stats", "show")["count"] == 3

        hosts = stock.show("--os-compute-api-version=2.42", "host", "list")
        assert {"node1", "node2", "node3"} < {each["Host Name"] for each in hosts}
        rows = stock.show("--os-compute-api-version=2.42", "host", "show", "node1")
        total = next(each for each in rows if each["Project"] == "(total)")
        assert (total["CPU"], total["Memory MB"]) == (16, 65536)
        for words, status in (("--disable", "disabled"), ("--enable", "enabled")):
            stock.do("--os-compute-api-version=2.42", "host", "set", words, "node1")
            (service,) = stock.show("compute", "service", "list", "--host", "node1")
            assert service["Status"] == status
        # The service of a live host would register again with its next report, so only an unknown id is tried.
        complaint = stock.refused("compute", "service", "delete", "0c2d9f2a-6cb4-4c7c-8a4e-3a3d4b0c3f2e", cloud=ADMIN)
        assert "0c2d9f2a-6cb4-4c7c-8a4e-3a3d4b0c3f2e" in complaint

    def test_usage_and_what_the_cloud_says_of_itself(self, stock: StockCloud) -> None:
        uuid = stock.show(*BOOT, "used", cloud=DEMO)["id"]
        own = stock.show("usage", "show", cloud=DEMO)
        assert uuid in {each["instance_id"] for each in own["Servers"]}
        assert own["Project"] in {each["Project"] for each in stock.show("usage", "list")}
        assert "Too many" not in stock.do("project", "cleanup", "--dry-run", "--auth-project", cloud=DEMO)
        stock.do("project", "cleanup", "--auth-project", "--auto-approve", "--skip-resource", "image", cloud=DEMO)
        assert uuid not in {each["ID"] for each in stock.show("server", "list", cloud=DEMO)}

        assert "os-hypervisors" in {each["Alias"] for each in stock.show("extension", "list", "--compute")}
        found = {(each["Service Type"], each["Version"]): each for each in stock.show("versions", "show")}
        assert found["compute", "2.1"]["Min Microversion"] == "2.1"
        assert stock.show("configuration", "show")["region_name"] == "RegionOne"
        stock.do("cloud", "cache", "delete")

    def test_what_needs_another_service_says_so(self, stock: StockCloud) -> None:
        uuid, absent = stock.show(*BOOT, "lonely")["id"], new_uuid()
        expected: Sequence[tuple[tuple[str, ...], str]] = (
            (("server", "add", "fixed", "ip", uuid, absent), NO_NETWORK),
            (("server", "add", "network", uuid, absent), NO_NETWORK),
            (("server", "add", "port", uuid, absent), NO_NETWORK),
            (("server", "remove", "port", uuid, absent), f"Instance {uuid} does not have a port with id {absent}"),
            (("--os-compute-api-version=2.43", "server", "remove", "fixed", "ip", uuid, "10.0.0.1"), NO_NETWORK),
            (("server", "add", "security", "group", uuid, "web"), "web not found"),
            (("server", "remove", "security", "group", uuid, "web"), "web not found"),
            (("server", "add", "floating", "ip", uuid, "10.0.0.1"), NO_CATALOG),
            (("server", "remove", "floating", "ip", uuid, "10.0.0.1"), NO_CATALOG),
            (("server", "add", "volume", uuid, "disk"), NO_CATALOG),
            (("server", "remove", "volume", uuid, "disk"), NO_CATALOG),
            (("server", "volume", "set", "--delete-on-termination", uuid, "disk"), NO_CATALOG),
            (("server", "volume", "update", "--delete-on-termination", uuid, "disk"), NO_CATALOG),
            (("server", "add", "share", uuid, "files"), NO_CATALOG),
            (("server", "remove", "share", uuid, "files"), NO_CATALOG),
            (("server", "share", "show", uuid, "files"), NO_CATALOG),
            (("server", "ssh", uuid), "No public IP version [4, 6] address found"),
            (("extension", "show", "os-hosts"), NO_CATALOG),
            (("compute", "agent", "list"), GONE),
            (("compute", "agent", "create", "os", "arch", "1", "url", "md5", "kvm"), GONE),
            (("compute", "agent", "set", "1"), GONE),
            (("compute", "agent", "delete", "1"), GONE),
        )
        for words, complaint in expected:
            assert complaint in stock.refused(*words, cloud=ADMIN), words
        stock.do("server", "remove", "network", uuid, "net")  # the server has no port in that network
        assert stock.show("server", "share", "list", uuid) == []
        stock.do("server", "delete", "--wait", uuid)
