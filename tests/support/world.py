# SPDX-License-Identifier: Apache-2.0
"""Consistency checks of a cloud without running workflows, directly on the tables and the hypervisors."""

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.compute.virt.fake.guests import GuestFile, Origin, Place
from kilonova.db import host_devices, server_migrations
from kilonova.db.audits import audit
from kilonova.db.core import tables as t
from kilonova.model.instance import PowerState, VmState
from kilonova.model.server_migration import OPEN, MigrationStatus

SETTLED = {
    VmState.ACTIVE,
    VmState.STOPPED,
    VmState.PAUSED,
    VmState.SUSPENDED,
    VmState.RESCUED,
    VmState.RESIZED,
    VmState.SOFT_DELETED,
    VmState.SHELVED,
    VmState.SHELVED_OFFLOADED,
    VmState.ERROR,
}
#: vm_state of a settled server → allowed power states of its guest.
STATES = {
    VmState.ACTIVE: {PowerState.RUNNING},
    VmState.STOPPED: {PowerState.SHUTDOWN},
    VmState.PAUSED: {PowerState.PAUSED},
    VmState.SUSPENDED: {PowerState.SUSPENDED},
    VmState.RESCUED: {PowerState.RUNNING},
    VmState.RESIZED: {PowerState.RUNNING, PowerState.SHUTDOWN},
    VmState.SOFT_DELETED: {PowerState.SHUTDOWN},
    VmState.SHELVED: {PowerState.SHUTDOWN},
    VmState.ERROR: set(PowerState),
}


def check_books(connection: Connection) -> None:
    """Assert that usage equals the sum of allocations and fits the capacity; check devices, groups and quotas too."""
    check_devices(connection)
    assert list(audit.wrong_quota_usages(connection)) == []
    sums = {
        (row[0], row[1]): row[2]
        for row in connection.execute(
            sa.select(
                t.allocations.c.resource_provider_id,
                t.allocations.c.resource_class_id,
                sa.func.sum(t.allocations.c.used),
            ).group_by(t.allocations.c.resource_provider_id, t.allocations.c.resource_class_id)
        )
    }
    for row in connection.execute(sa.select(t.inventories)):
        assert row.used == sums.pop((row.resource_provider_id, row.resource_class_id), 0), row
        assert row.used <= row.capacity, row
    assert not sums, "allocations without an inventory"
    members = Counter(
        (row.group_uuid, row.host)
        for row in connection.execute(
            sa.select(t.instances.c.group_uuid, t.instances.c.host).where(
                t.instances.c.deleted.is_(False), t.instances.c.host.is_not(None), t.instances.c.group_uuid.is_not(None)
            )
        )
    )
    sides = list(server_migrations.other_sides(connection))
    members.update((side.group_uuid, side.host) for side in sides if side.group_uuid and side.migration.changes_host)
    moving = {side.group_uuid for side in sides}
    counted = {
        (row.uuid, row.host): row.members
        for row in connection.execute(
            sa.select(t.server_groups.c.uuid, t.server_group_hosts.c.host, t.server_group_hosts.c.members).join(
                t.server_groups, t.server_groups.c.id == t.server_group_hosts.c.group_id
            )
        )
    }
    alive = set(connection.execute(sa.select(t.server_groups.c.uuid)).scalars())
    assert counted == {key: count for key, count in members.items() if key[0] in alive}
    for group in connection.execute(sa.select(t.server_groups)):
        hosts = {host: count for (uuid, host), count in counted.items() if uuid == group.uuid}
        if group.policy == "affinity":
            assert group.host in {None, *hosts}
            strays = set(hosts) - {group.host} - _returned_members(connection, group.uuid)
            assert group.uuid in moving or not strays, strays
        if group.policy == "anti-affinity":
            assert all(count <= group.max_server_per_host for count in hosts.values()), hosts


def _returned_members(connection: Connection, group_uuid: str) -> set[str]:
    """Return the hosts to which members of a group returned from a move; other members may have joined them elsewhere.

    A move for which no second host was found after a failure has no destination.
    """
    instance, migration = t.instances.c, t.server_migrations.c
    joined = sa.join(t.instances, t.server_migrations, migration.instance_uuid == instance.uuid)
    elsewhere = sa.or_(migration.dest_host.is_(None), migration.source_host != migration.dest_host)
    ended = ~server_migrations.IS_OPEN, elsewhere
    came_back = sa.select(instance.host).select_from(joined).where(*ended, instance.host == migration.source_host)
    return set(connection.execute(came_back.where(instance.group_uuid == group_uuid)).scalars())


def check_devices(connection: Connection) -> None:
    """Assert that cells and pools count what servers use, nothing is used twice, and users are on the host."""
    takings = host_devices.shares(connection)
    for uuid, host in host_devices.list_all(connection).items():
        shares = [taking.share for taking in takings if taking.node_uuid == uuid]
        assert host == host.used_by(shares), uuid
        pinned = Counter(cpu for share in shares for part in share.cells for cpu in part.pinned)
        assert not pinned or max(pinned.values()) == 1, pinned
        for cell in host.cells:
            assert cell.pinned <= cell.pcpuset
            assert all(pages.used <= pages.total - pages.reserved for pages in cell.pages[1:])
        assert all(pool.used <= pool.total for pool in host.pools), host.pools
        for pool in host.pools:
            given = [address for share in shares for address in dict(share.addresses).get(pool.number, ())]
            assert len(given) == len(set(given)), given
            if pool.addresses:
                assert len(given) == pool.used
                assert set(given) <= set(pool.addresses)
    homes = {(uuid, node_uuid) for uuid, _, node_uuid in holders(connection)}
    assert {(taking.instance_uuid, taking.node_uuid) for taking in takings} <= homes, (
        "device shares without a server on the node"
    )


def holders(connection: Connection) -> set[tuple[str, str, str]]:
    """Return (consumer, host, node uuid) of all consumers that must hold allocations."""
    instance, migration = t.instances.c, t.server_migrations.c
    nodes = {(row.host, row.hypervisor_hostname): row.uuid for row in connection.execute(sa.select(t.compute_nodes))}
    wanted = sa.select(instance.uuid, instance.host, sa.func.coalesce(instance.node, instance.host))
    placed = wanted.where(instance.deleted.is_(False), instance.host.is_not(None))
    found = {row[0]: (row[1], row[2]) for row in connection.execute(placed)}
    claimed = migration.status.in_(sorted(OPEN)), migration.dest_host.is_not(None), instance.deleted.is_(False)
    joined = sa.select(t.server_migrations).join(t.instances, instance.uuid == migration.instance_uuid)
    for row in connection.execute(joined.where(*claimed)):
        if row.status != MigrationStatus.DONE:  # a server may have left the destination of a completed evacuation
            found[row.instance_uuid] = row.dest_host, row.dest_node
        found[row.uuid] = row.source_host, row.source_node
    return {(uuid, host, nodes.get((host, node), "")) for uuid, (host, node) in found.items()}


def check_world(connection: Connection, guests: Mapping[str, AbstractSet[str]]) -> dict[str, str]:
    """Assert that no workflow runs and nothing is left over.

    ``guests``: host → instance uuids. Returns uuid → vm_state.
    """
    check_books(connection)
    assert connection.execute(sa.select(t.workflows)).all() == []
    rows = connection.execute(sa.select(t.instances).where(t.instances.c.deleted.is_(False))).all()
    faults = set(connection.execute(sa.select(t.instance_faults.c.instance_uuid)).scalars())
    for row in rows:
        assert row.task_state is None, row
        assert row.vm_state in SETTLED, row
        assert row.vm_state != VmState.ERROR or row.uuid in faults, row
        assert row.vm_state != VmState.SHELVED_OFFLOADED or row.host is None, row
        assert row.vm_state != VmState.SHELVED or row.host is not None, row
        is_shelved = row.vm_state in {VmState.SHELVED, VmState.SHELVED_OFFLOADED}
        assert not is_shelved or (row.shelved_image and row.shelved_at), row
    left = evacuated(connection)
    resizes = [side.migration for side in server_migrations.other_sides(connection) if not side.migration.has_left]
    moved = {migration.instance_uuid: migration for migration in resizes}
    under_way = sa.select(t.server_migrations).where(server_migrations.IS_OPEN)
    open_moves = connection.execute(under_way.where(t.server_migrations.c.status != MigrationStatus.DONE)).all()
    assert {row.status for row in open_moves} <= {MigrationStatus.FINISHED}
    resized = sorted(row.uuid for row in rows if row.vm_state == VmState.RESIZED)
    assert sorted(row.instance_uuid for row in open_moves) == resized, "a migration without a server"
    placed = {(row.host, row.uuid) for row in rows if row.host is not None}
    placed |= {(host, uuid) for uuid, migration in moved.items() for host in migration.hosts}
    there = {(host, uuid) for host, uuids in guests.items() for uuid in uuids} - (left - placed)
    assert there == placed, f"unexpected guests: {there - placed}; missing: {placed - there}; {rows}"
    providers = {
        (row.uuid, row.host) for row in connection.execute(sa.select(t.compute_nodes.c.uuid, t.compute_nodes.c.host))
    }
    host_of = dict(providers)
    root, provider = t.resource_providers.alias(), t.resource_providers
    allocated = {
        (host_of[row[1]], row[0])
        for row in connection.execute(
            sa.select(t.allocations.c.consumer_uuid, root.c.uuid)
            .join(provider, provider.c.id == t.allocations.c.resource_provider_id)
            .join(root, root.c.id == provider.c.root_provider_id)
        )
        if row[1] in host_of  # excludes shared providers, which belong to many hosts
    }
    holding = {(host, uuid) for uuid, host, _ in holders(connection)}
    assert allocated == holding
    assert set(connection.execute(sa.select(t.consumers.c.uuid)).scalars()) == {uuid for _, uuid in holding}
    return {row.uuid: row.vm_state for row in rows}


def evacuated(connection: Connection) -> set[tuple[str, str]]:
    """Return (host, server) of evacuations whose source host has not yet come back and cleaned up."""
    migration = t.server_migrations.c
    done = sa.select(migration.source_host, migration.instance_uuid).where(migration.status == MigrationStatus.DONE)
    return {(row.source_host, row.instance_uuid) for row in connection.execute(done)}


def check_guests(connection: Connection, *folders: Path) -> None:
    """Assert that each server has one guest with the flavor's size and the shown state, and a kept guest if it is
    resized.

    ``folders``: of the simulated hypervisors.
    """
    files = [file for folder in folders for file in folder.glob("*.json")]
    places = {(file.stem, uuid): place for file in files for uuid, place in GuestFile("", file).places.items()}
    left = evacuated(connection)
    check_drives(places, *folders)
    moves = connection.execute(sa.select(t.server_migrations).where(server_migrations.IS_OPEN)).all()
    kept = {(row.source_host, row.instance_uuid) for row in moves} - left
    rows = connection.execute(sa.select(t.instances).where(t.instances.c.deleted.is_(False))).all()
    places = {key: place for key, place in places.items() if key not in left - {(row.host, row.uuid) for row in rows}}
    assert {key for key, place in places.items() if place.kept is not None} == kept
    faulty = set(connection.execute(sa.select(t.instance_faults.c.instance_uuid)).scalars())
    guests = {key: place.guest for key, place in places.items() if place.guest is not None}
    assert set(guests) == {(row.host, row.uuid) for row in rows if row.host is not None}
    for row in rows:
        if row.host is None:
            continue
        guest, flavor = guests[row.host, row.uuid], row.flavor
        assert guest.origin is not Origin.INCOMING, row.uuid
        if row.uuid not in faulty:  # a host may have completed an order that it reported as failed
            assert guest.state in STATES[row.vm_state], (row.uuid, row.vm_state, guest)
        if row.vm_state != VmState.ERROR and row.uuid not in faulty:
            assert guest.state == row.power_state, (row.uuid, row.vm_state, row.power_state, guest)
        if row.vm_state != VmState.ERROR and row.uuid not in faulty:
            assert guest.image_ref in {None, row.image_ref}, (row.uuid, row.image_ref, guest)
        assert guest.has_config_drive == bool(row.config_drive), row.uuid
        if (
            row.uuid not in faulty and row.vm_state != VmState.SOFT_DELETED
        ):  # a restore boots a soft-deleted server from its own disk
            assert (guest.rescue_image_ref is not None) == (row.vm_state == VmState.RESCUED), (row.vm_state, guest)
        assert (guest.vcpus, guest.memory_mib) == (flavor["vcpus"], flavor["memory_mib"]), (flavor, guest)


def check_drives(places: Mapping[tuple[str, str], Place], *folders: Path) -> None:
    """Assert that guests have the config drives they were created with, rescued guests a second one, and no others
    exist.

    ``places``: (host, instance) → what the host has of the instance.
    """
    found = {(file.parent.name, file.name) for folder in folders for file in folder.glob("config_drives/*/*")}
    expected = set()
    for (name, uuid), place in places.items():
        for guest in (place.guest, place.kept):
            if guest is not None and guest.has_config_drive:
                expected.add((name, f"{uuid}.iso"))
                if guest.rescue_image_ref is not None:
                    expected.add((name, f"{uuid}.rescue.iso"))
    assert found == expected, f"unexpected config drives: {found - expected}; missing: {expected - found}"


def check_images(connection: Connection, images: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    """Assert that every snapshot has the data of its server's image, and that hosts keep only guests' disks.

    ``images``: from :class:`support.folder_images.FolderImages`. ``folder``: of the simulated hypervisors.
    """
    assert connection.execute(sa.select(t.unwanted_images)).all() == [], "images that wait for their removal"
    own = {image_id: image for image_id, image in images.items() if "instance_uuid" in image["properties"]}
    shelved = sa.select(t.instances.c.shelved_image).where(t.instances.c.deleted.is_(False))
    assert set(connection.execute(shelved).scalars()) - {None} <= set(own), "a shelved server without its snapshot"
    based_on = {image["data"] for image_id, image in images.items() if image_id not in own}
    for image_id, image in own.items():
        assert image["data"] in based_on, f"image {image_id} does not have the data of its server's image: {image}"
    for file in folder.glob("*.json"):
        places = set(GuestFile("", file).places)
        disks = folder / "disks" / file.stem
        left = {disk.name for disk in disks.glob("*")} - places - {"copies"}
        copies = {copy.name for copy in disks.glob("copies/*")}
        left |= {name for name in copies if not name.endswith(".brought") or name.split(".")[0] not in places}
        assert not left, f"orphaned disks and copies on {file.stem}: {left}"


def guests_on_disk(folder: Path) -> dict[str, set[str]]:
    """Return the guests in the files of the simulated hypervisors."""
    found: dict[str, Any] = {file.stem: orjson.loads(file.read_bytes()) for file in folder.glob("*.json")}
    return {host: set(guests) for host, guests in found.items()}


def power_states_on_disk(folder: Path) -> dict[str, PowerState]:
    """Return the power state of each instance in the files of the simulated hypervisors."""
    files = (GuestFile(file.stem, file) for file in folder.glob("*.json"))
    return {uuid: place.power_state for file in files for uuid, place in file.places.items()}
