# SPDX-License-Identifier: Apache-2.0
"""Tasks of users and operators in Horizon's compute panels, with a browser."""

from collections.abc import Callable

import pytest
from dashboard import INSTANCES, User

SignIn = Callable[[str], User]


@pytest.fixture
def member(sign_in: SignIn) -> User:
    return sign_in("kilonova-demo")


@pytest.fixture
def admin(sign_in: SignIn) -> User:
    return sign_in("kilonova")


def test_the_overview_counts_what_there_is(member: User) -> None:
    member.open("/project/")
    member.sees("Limit Summary", "Instances", "vCPUs", "RAM", "No Limit", "Usage Summary")


def test_a_member_launches_resizes_snapshots_and_deletes_a_server(member: User) -> None:
    member.launch("web")
    member.act("web", "resize")
    member.choose("m1.small")
    member.submit()
    member.until_row("web", "Confirm or Revert Resize/Migrate")
    member.open(INSTANCES)
    member.act("web", "confirm")
    member.until_row("web", "m1.small", "Active")

    member.open(INSTANCES)
    member.act("web", "snapshot")
    member.fill(".modal-dialog #id_name", "copy of web")
    member.click(".modal-dialog .btn-primary")
    member.until(lambda: "/project/images" in member.browser.current_url, "the page of images")
    member.sees("copy of web", "Snapshot", "Active")

    member.open(INSTANCES)
    member.click("a", "web")
    member.sees("m1.small", "Overview")
    member.click("a", "Log")
    member.sees("Instance Console Log", "first start")
    member.click("a", "Action Log")
    member.sees("Create Image", "Confirm Resize", "Create")

    member.open(INSTANCES)
    member.act("web", "delete")
    member.click(".modal-dialog .btn-primary, .modal-dialog .btn-danger", "Delete Instance")
    member.until(lambda: member.row("web") is None, "the server to be deleted")


def test_a_member_has_keys_and_server_groups(member: User) -> None:
    member.open("/project/key_pairs")
    member.sees("Create Key Pair")
    member.open("/project/server_groups")
    member.sees("Create Server Group")


def test_an_administrator_sees_hosts_flavors_and_everybodys_servers(sign_in: SignIn, admin: User) -> None:
    member = sign_in("kilonova-demo")
    member.launch("theirs")
    admin.open("/admin/hypervisors/")
    admin.sees("Hypervisor Summary", "node1", "node2", "node3", "fake")
    admin.click("a", "Compute Host")
    admin.sees("Enabled", "Up")
    admin.open("/admin/aggregates/")
    admin.click("#host_aggregates__action_create")
    admin.fill("#id_name", "fast")
    admin.fill("#id_availability_zone", "quick")
    admin.click(".modal-dialog .btn-primary, .modal-dialog .btn-finish")
    admin.until_row("fast", "quick")
    admin.open("/admin/flavors/")
    admin.sees("m1.tiny", "512")
    admin.open("/admin/info/")
    admin.click("a", "Compute Services")
    admin.sees("nova-compute", "nova-scheduler", "node1")

    admin.open("/admin/instances/")
    admin.until_row("theirs", "demo", "Active")
    admin.act("theirs", "live_migrate")
    admin.sees("Live Migrate", "Block Migration")
    admin.click(".modal-dialog .themable-select .dropdown-toggle")
    admin.until(
        lambda: [each for each in admin.shown(".themable-select li a") if "node" in each.text], "the destination hosts"
    )
    admin.click(".modal-dialog a.cancel, .modal-dialog .cancel")
    admin.until(lambda: not admin.shown(".modal-dialog"), "the dialog to close")
    admin.open("/admin/instances/")
    admin.act("theirs", "delete")
    admin.click(".modal-dialog .btn-primary, .modal-dialog .btn-danger", "Delete Instance")
    admin.until(lambda: admin.row("theirs") is None, "the server to be deleted")
