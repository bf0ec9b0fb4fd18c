# SPDX-License-Identifier: Apache-2.0
"""Metadata of servers as the metadata service reads them."""

import json

from kilonova.identifiers import new_uuid
from support.cell import Cell, NewCell, host, networks
from support.fake_neutron import FakeNeutron


def test_a_server_without_a_config_drive_has_metadata(cell_of: NewCell) -> None:
    neutron = FakeNeutron()
    cell = cell_of(host("node1"), neutron=neutron)
    (uuid,) = cell.boot(networks=networks(neutron.make_network()))
    cell.work_off()
    files = cell.conductor.operations.guest_metadata.files(uuid, "wonder")
    assert files is not None
    told = json.loads(files["openstack/latest/meta_data.json"])
    assert (told["uuid"], told["name"], told["availability_zone"]) == (uuid, "vm0", "nova")
    (link,) = json.loads(files["openstack/latest/network_data.json"])["links"]
    assert link["ethernet_mac_address"].startswith("fa:16:3e")


def test_the_password_is_on_config_drives_only(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    cell.conductor._services.config_drives.passwords.remember([uuid], "heliotrope")
    files = cell.conductor.operations.guest_metadata.files(uuid, "wonder")
    assert files is not None
    assert not any(b"heliotrope" in content for content in files.values())


def test_servers_of_other_projects_and_deleted_ones_have_none(cell_of: NewCell) -> None:
    cell = cell_of(host("node1"))
    (uuid,) = cell.boot()
    cell.work_off()
    assert not _has_files(cell, uuid, "other")
    assert not _has_files(cell, new_uuid(), "wonder")
    cell.delete(uuid)
    cell.work_off()
    assert not _has_files(cell, uuid, "wonder")


def _has_files(cell: Cell, uuid: str, project: str) -> bool:
    return cell.conductor.operations.guest_metadata.files(uuid, project) is not None
