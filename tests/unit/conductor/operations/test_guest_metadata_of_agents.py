# SPDX-License-Identifier: Apache-2.0
"""Questions of agents about the metadata of guests on their hosts."""

import json

import pytest

from kilonova.messaging.bus import Sender
from kilonova.messaging.messages import AskMetadata, GuestMetadata, PasswordPosted, PostPassword
from kilonova.model.network_info import Vif
from kilonova.model.posted_password import PostResult
from support.cell import Cell, NewCell, host, networks
from support.fake_neutron import FakeNeutron

AGENT = Sender("rack1")


@pytest.fixture
def cell(cell_of: NewCell) -> Cell:
    """Two hosts with a server each, on two networks with the same addresses."""
    neutron = FakeNeutron()
    cell = cell_of(host("node1", vcpus=1), host("node2", vcpus=1), neutron=neutron)
    for name in ("first", "second"):
        cell.boot(networks=networks(neutron.make_network(name)))
        cell.work_off()
    return cell


def guests(cell: Cell) -> list[tuple[str, str, Vif]]:
    """Return one tuple for each server: its host, its uuid and its only interface."""
    found = []
    for uuid in _uuids(cell):
        (vif,) = cell.interfaces(uuid)
        found.append((str(cell.instance(uuid).host), uuid, vif))
    return found


def _uuids(cell: Cell) -> list[str]:
    with cell.database.read() as connection:
        return [uuid for (uuid,) in connection.exec_driver_sql("SELECT uuid FROM instances ORDER BY id")]


def address_of(vif: Vif) -> str:
    return next(fixed.address for _, fixed in vif.addresses)


def ask(cell: Cell, on: str, vif: Vif, mac: str | None = None, network: str | None = None) -> GuestMetadata:
    question = AskMetadata(on, network or vif.network.id, address_of(vif), vif.mac if mac is None else mac)
    answer = cell.conductor.answer(question, AGENT)
    assert isinstance(answer, GuestMetadata)
    return answer


def post(cell: Cell, on: str, vif: Vif, password: str) -> PostResult:
    answer = cell.conductor.answer(PostPassword(on, vif.network.id, address_of(vif), vif.mac, password), AGENT)
    assert isinstance(answer, PasswordPosted)
    return answer.result


def test_the_answer_has_what_a_config_drive_has(cell: Cell) -> None:
    (on, uuid, vif), _ = guests(cell)
    answer = ask(cell, on, vif)
    files = answer.files()
    assert json.loads(files["openstack/latest/meta_data.json"])["uuid"] == uuid
    assert len(answer.contents) < len(answer.paths)
    expected = cell.conductor.operations.guest_metadata.files(uuid)
    assert expected is not None
    assert files.keys() == expected.keys()
    random = {path for path in files if path.endswith("meta_data.json")}
    assert {path: files[path] for path in files.keys() - random} == {
        path: expected[path] for path in files.keys() - random
    }
    assert ask(cell, on, vif, mac="").found


def test_an_agent_learns_nothing_of_other_hosts_and_networks(cell: Cell) -> None:
    (first_host, _, first), (second_host, _, second) = guests(cell)
    assert first_host != second_host
    assert not ask(cell, first_host, second).found
    assert not ask(cell, second_host, first).found
    assert not ask(cell, "", first).found
    assert not ask(cell, first_host, first, network=second.network.id).found
    assert not ask(cell, first_host, first, mac=second.mac).found
    assert post(cell, first_host, second, "abc=") is PostResult.ABSENT


def test_networks_that_share_an_address_are_told_apart(cell: Cell) -> None:
    (first_host, first_uuid, first), (second_host, second_uuid, second) = guests(cell)
    assert address_of(first) == address_of(second)
    for on, uuid, vif in ((first_host, first_uuid, first), (second_host, second_uuid, second)):
        assert uuid.encode() in ask(cell, on, vif).files()["openstack/latest/meta_data.json"]


def test_a_deleted_server_has_no_metadata(cell: Cell) -> None:
    (on, uuid, vif), _ = guests(cell)
    cell.delete(uuid)
    cell.work_off()
    assert not ask(cell, on, vif).found


def test_the_first_password_stays_until_its_owner_deletes_it(cell: Cell) -> None:
    (on, uuid, vif), _ = guests(cell)
    for bad in ("", "x" * 1021, "a\nb", "\u00fc"):
        assert post(cell, on, vif, bad) is PostResult.INVALID
    assert ask(cell, on, vif).files()["openstack/latest/password"] == b""
    assert post(cell, on, vif, "abc=") is PostResult.STORED
    assert post(cell, on, vif, "abc=") is PostResult.STORED  # a copy of the question
    assert post(cell, on, vif, "def=") is PostResult.PRESENT
    assert ask(cell, on, vif).files()["openstack/latest/password"] == b"abc="
    servers = cell.conductor.operations.guest_metadata
    assert servers.post_password(uuid, "other", "abc=") is PostResult.ABSENT
