# SPDX-License-Identifier: Apache-2.0
"""Life cycle of each resource of openstacksdk's compute client: create, get, find, list, update, wait, delete."""

import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import openstack
import pytest
from openstack.connection import Connection
from openstack.exceptions import BadRequestException, ConflictException, ForbiddenException, NotFoundException

from support.stock_cloud import StockCloud

pytestmark = pytest.mark.cloud

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHE5S1eWoSlVXPp1v9oGoxSDfJXvZmZmJ8DqzJ1pYh1t somebody@example"


@pytest.fixture(scope="class")
def connect(stock: StockCloud) -> Iterator[Callable[[str], Connection]]:
    """Connect as the user of a cloud in clouds.yaml."""
    opened: list[Connection] = []

    def connection(cloud: str) -> Connection:
        files = [str(stock.supervisor.folder / "clouds.yaml")]
        region = openstack.config.OpenStackConfig(config_files=files, load_envvars=False).get_one(cloud)
        opened.append(Connection(config=region))
        return opened[-1]

    yield connection
    for each in opened:
        each.close()


@pytest.fixture(scope="class")
def admin(connect: Callable[[str], Connection]) -> Connection:
    return connect("kilonova")


@pytest.fixture(scope="class")
def demo(connect: Callable[[str], Connection]) -> Connection:
    return connect("kilonova-demo")


def same(one: Any, other: Any, *but: str) -> bool:
    """Return whether two resources are equal, apart from their location and the attributes ``but``."""
    left, right = ({**each.to_dict()} for each in (one, other))
    for name in ("location", *but):
        left.pop(name, None)
        right.pop(name, None)
    assert left == right
    return True


class TestResources:
    """Resources of an administrator and a member, on one cloud."""

    scenario: ClassVar = "moves"

    def test_flavors(self, admin: Connection, demo: Connection) -> None:
        compute = admin.compute
        size: dict[str, Any] = {"ram": 96, "vcpus": 2, "disk": 3, "ephemeral": 1, "swap": 64}
        made = compute.create_flavor(name="odd", **size, is_public=False, description="words")
        assert {name: getattr(made, name) for name in size} == size
        fetched = compute.get_flavor(made.id, get_extra_specs=True)
        assert same(compute.find_flavor("odd", get_extra_specs=True), fetched)
        assert made.id in {each.id for each in compute.flavors(is_public=None)}
        assert made.id not in {each.id for each in demo.compute.flavors()}
        project = demo.current_project_id
        compute.flavor_add_tenant_access(made, project)
        assert [each["tenant_id"] for each in compute.get_flavor_access(made)] == [project]
        assert made.id in {each.id for each in demo.compute.flavors()}
        compute.flavor_remove_tenant_access(made, project)
        assert compute.update_flavor(made, description="others").description == "others"
        compute.create_flavor_extra_specs(made, {"a:b": "c", "d:e": "f"})
        assert compute.update_flavor_extra_specs_property(made, "a:b", "g") == "g"
        compute.delete_flavor_extra_specs_property(made, "d:e")
        assert compute.fetch_flavor_extra_specs(made).extra_specs == {"a:b": "g"}
        with pytest.raises(ConflictException):
            compute.create_flavor(name="odd", **size)
        with pytest.raises(ForbiddenException):
            demo.compute.create_flavor(name="mine", **size)
        compute.delete_flavor(made, ignore_missing=False)
        assert compute.find_flavor("odd") is None
        with pytest.raises(NotFoundException):
            compute.get_flavor(made.id)

    def test_keypairs(self, demo: Connection) -> None:
        compute = demo.compute
        made = compute.create_keypair(name="by-sdk", public_key=KEY)
        fetched = compute.get_keypair("by-sdk")
        assert (fetched.public_key, fetched.fingerprint, fetched.type) == (KEY, made.fingerprint, "ssh")
        assert compute.find_keypair("by-sdk").id == fetched.id
        assert "by-sdk" in {each.name for each in compute.keypairs()}
        compute.delete_keypair("by-sdk", ignore_missing=False)
        assert "by-sdk" not in {each.name for each in compute.keypairs()}
        assert compute.find_keypair("by-sdk") is None

    def test_server_groups(self, demo: Connection) -> None:
        compute = demo.compute
        made = compute.create_server_group(name="apart", policy="anti-affinity", rules={"max_server_per_host": 2})
        assert same(compute.get_server_group(made.id), made)
        assert compute.find_server_group("apart").id == made.id
        (listed,) = (each for each in compute.server_groups() if each.name == "apart")
        assert (listed.policy, listed.rules) == ("anti-affinity", {"max_server_per_host": 2})
        compute.delete_server_group(made, ignore_missing=False)
        assert compute.find_server_group("apart") is None

    def test_aggregates(self, admin: Connection) -> None:
        compute = admin.compute
        used = {each.compute_host for each in compute.servers(all_projects=True)}
        # changing the zone of a used host would affect other tests
        host = next(name for name in ("node3", "node2", "node1") if name not in used)
        made = compute.create_aggregate(name="fast", availability_zone="quick")
        assert same(compute.get_aggregate(made.id), compute.find_aggregate("fast"))
        assert "fast" in {each.name for each in compute.aggregates()}
        assert compute.add_host_to_aggregate(made, host).hosts == [host]
        compute.set_aggregate_metadata(made, {"ssd": "true"})
        assert compute.update_aggregate(made, name="faster").name == "faster"
        assert compute.get_aggregate(made.id).metadata == {"ssd": "true", "availability_zone": "quick"}
        zones = {each.name: each.hosts for each in compute.availability_zones(details=True)}
        assert set(zones["quick"]) == {host}
        image = admin.image.find_image("tiny")
        compute.aggregate_precache_images(made.id, [image.id])
        with pytest.raises(BadRequestException, match="not empty"):
            compute.delete_aggregate(made, ignore_missing=False)
        compute.remove_host_from_aggregate(made, host)
        compute.delete_aggregate(made, ignore_missing=False)
        assert compute.find_aggregate("faster") is None

    def test_hypervisors_and_services(self, admin: Connection, demo: Connection) -> None:
        compute = admin.compute
        hypervisors = {each.name: each for each in compute.hypervisors(details=True)}
        assert set(hypervisors) == {"node1", "node2", "node3"}
        found = compute.find_hypervisor("node1", details=True)
        assert same(compute.get_hypervisor(hypervisors["node1"].id), found, "uptime")
        services = {each.host: each for each in compute.services(binary="nova-compute")}
        node1 = services["node1"]
        assert compute.find_service("nova-compute", host="node2").id == services["node2"].id
        disabled = compute.disable_service(node1, "node1", "nova-compute", disabled_reason="paint")
        assert (disabled.status, disabled.disabled_reason) == ("disabled", "paint")
        assert compute.enable_service(node1, "node1", "nova-compute").status == "enabled"
        assert compute.update_service_forced_down(node1, "node1", "nova-compute", forced=True).is_forced_down
        assert not compute.update_service_forced_down(node1, "node1", "nova-compute", forced=False).is_forced_down
        for listed in (demo.compute.hypervisors, demo.compute.services):
            with pytest.raises(ForbiddenException):
                list(listed())

    def test_quotas_and_limits(self, admin: Connection, demo: Connection) -> None:
        compute, project = admin.compute, demo.current_project_id
        defaults = compute.get_quota_set_defaults(project)
        assert compute.update_quota_set(project, cores=7, ram=4096).cores == 7
        found = compute.get_quota_set(project)
        assert (found.cores, found.ram, found.instances) == (7, 4096, defaults.instances)
        absolute = demo.compute.get_limits().absolute
        assert (absolute.total_cores, absolute.total_ram) == (7, 4096)
        assert compute.get_quota_set(project, usage=True).usage["cores"] == absolute.total_cores_used
        assert compute.get_limits(tenant_id=project).absolute.total_cores == 7
        compute.revert_quota_set(project)
        assert compute.get_quota_set(project).cores == defaults.cores
        compute.update_quota_class_set("default", cores=11)
        assert compute.get_quota_class_set("default").cores == 11
        compute.update_quota_class_set("default", cores=-1)

    def test_a_server_and_its_image(self, demo: Connection) -> None:
        compute = demo.compute
        flavor, small = compute.find_flavor("m1.tiny"), compute.find_flavor("m1.small")
        image = demo.image.find_image("tiny")
        made = compute.create_server(
            name="round", flavor_id=flavor.id, image_id=image.id, networks="none", metadata={"a": "1"}
        )
        server = compute.wait_for_server(made, wait=60, interval=0.1)
        assert (server.status, server.metadata, server.image.id) == ("ACTIVE", {"a": "1"}, image.id)
        assert same(compute.get_server(server.id), compute.find_server("round"), "server_groups")
        assert [each.id for each in compute.servers(details=False, name="round")] == [server.id]
        assert compute.update_server(server, name="robin", description="words").description == "words"
        compute.set_server_metadata(server, b="2")
        compute.delete_server_metadata(server.id, ["a"])
        assert compute.get_server_metadata(server).metadata == {"b": "2"}
        compute.add_tag_to_server(server, "red")
        assert compute.get_server(server.id).tags == ["red"]

        taken = compute.create_server_image(server, "copy", {"of": "robin"}, wait=True, timeout=60)
        assert (taken.status, taken.properties["of"]) == ("active", "robin")
        demo.image.delete_image(taken.id, ignore_missing=False)
        compute.resize_server(server, small.id)
        compute.wait_for_server(server, status="VERIFY_RESIZE", wait=60, interval=0.1)
        compute.confirm_server_resize(server)
        server = compute.wait_for_server(compute.get_server(server.id), wait=60, interval=0.1)
        assert server.flavor.original_name == "m1.small"
        compute.stop_server(server)
        compute.wait_for_server(server, status="SHUTOFF", wait=60, interval=0.1)
        compute.start_server(server)
        compute.wait_for_server(server, wait=60, interval=0.1)
        actions = list(compute.server_actions(server))
        assert [each.action for each in actions][-2:] == ["createImage", "create"]
        shown = compute.get_server_action(actions[-1].request_id, server)
        assert (shown.action, shown.events[0].result) == ("create", "Success")
        assert "first start" in compute.get_server_console_output(server)["output"]
        compute.delete_server(server, ignore_missing=False)
        compute.wait_for_delete(server, wait=60, interval=0.1)
        assert compute.find_server("robin") is None

    def test_migrations(self, admin: Connection) -> None:
        compute = admin.compute
        flavor, image = compute.find_flavor("m1.tiny"), admin.image.find_image("tiny")
        made = compute.create_server(
            name="mover", flavor_id=flavor.id, image_id=image.id, networks="none", availability_zone="nova:node1"
        )
        server = compute.wait_for_server(made, wait=60, interval=0.1)
        compute.live_migrate_server(server, host="node3", block_migration="auto")
        deadline = time.monotonic() + 30
        while not (running := [each for each in compute.server_migrations(server) if each.status == "running"]):
            assert time.monotonic() < deadline
        (migration,) = running
        assert same(compute.get_server_migration(migration.id, server), migration, "updated_at", "server_id")
        compute.abort_server_migration(migration, server)
        server = compute.wait_for_server(compute.get_server(server.id), wait=60, interval=0.1)
        compute.migrate_server(server)
        compute.wait_for_server(server, status="VERIFY_RESIZE", wait=60, interval=0.1)
        compute.revert_server_resize(server)
        compute.wait_for_server(server, wait=60, interval=0.1)
        listed = [(each.migration_type, each.status) for each in compute.migrations(instance_uuid=server.id)]
        assert listed == [("migration", "reverted"), ("live-migration", "cancelled")]
        compute.delete_server(server, force=True)
        compute.wait_for_delete(server, wait=60, interval=0.1)
