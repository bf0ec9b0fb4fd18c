# SPDX-License-Identifier: Apache-2.0
"""Unshelved servers: their hosts and their images."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kilonova.errors import ConcurrentUpdate
from kilonova.model.instance import PowerState, VmState
from kilonova.scheduler.filters import different_host
from kilonova.scheduler.settings import SchedulerConfig
from support.absent_hosts import come_back, lose, vanish_after, vanish_before
from support.cell import Cell, NewCell, asker, host
from support.folder_images import FolderImages
from support.shelved import booted, own, rest, shelved


def test_an_unshelved_server_keeps_away_from_its_group_and_from_whom_it_was_told(
    cell_of: NewCell, images: FolderImages
) -> None:
    filters = (*SchedulerConfig().enabled_filters, "DifferentHostFilter")
    config = replace(SchedulerConfig(), enabled_filters=filters)
    cell = cell_of(host("a", vcpus=8), host("b", vcpus=2), host("c", vcpus=1), images=images, config=config)
    (other,) = booted(cell, force_host="b")
    group = cell.add_group("anti-affinity")
    apart = {different_host.HINT: (other,)}
    first, second = booted(cell, 1, group=group, hints=apart) + booted(cell, 1, group=group, hints=apart)
    assert {cell.instance(first).host, cell.instance(second).host} == {"a", "c"}
    there = first if cell.instance(first).host == "a" else second
    shelved(cell, there)
    cell.unshelve(there, "b")
    rest(cell)
    assert cell.instance(there).vm_state is VmState.SHELVED_OFFLOADED
    (held,) = booted(cell, force_host="a")  # nothing of its old place is kept
    cell.unshelve(there)
    rest(cell)
    assert (cell.instance(there).host, cell.instance(held).host) == ("a", "a")


def test_an_unshelve_takes_the_image_of_the_last_shelve(cell_of: NewCell, images: FolderImages) -> None:
    """The server was unshelved and shelved again since the request looked at it: the image of then is gone."""
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)
    shelved(cell, uuid)
    cell.unshelve(uuid)
    rest(cell)
    shelved(cell, uuid)
    cell.unshelve(uuid)
    rest(cell)
    assert (cell.instance(uuid).vm_state, cell.instance(uuid).fault, own(images)) == (VmState.ACTIVE, None, [])


@pytest.mark.parametrize("place", [{"host": "a"}, {"rezoned": True, "zone": None}])
def test_a_server_that_is_on_its_host_by_then_is_unshelved_to_no_place(
    cell_of: NewCell, images: FolderImages, place: dict[str, Any]
) -> None:
    """It had left its host when the request looked at it."""
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)
    shelved(cell, uuid, offload=False)
    with pytest.raises(ConcurrentUpdate):
        cell.conductor.operations.shelving.unshelve(uuid, asker("req-late"), **place)
    rest(cell)
    assert cell.instance(uuid).vm_state is VmState.SHELVED


@pytest.mark.parametrize("vanish", [vanish_before, vanish_after])
def test_a_guest_that_its_host_has_kept_is_off_after_a_failed_unshelve(
    cell_of: NewCell, images: FolderImages, vanish: Callable[[Cell, str, str], None]
) -> None:
    """The host goes away while it starts the guest; the server is shelved again when the host is back."""
    cell = cell_of(host("a"), images=images)
    (uuid,) = booted(cell)
    shelved(cell, uuid, offload=False)
    vanish(cell, "start", "a")
    cell.unshelve(uuid)
    lose(cell, "a")
    come_back(cell, "a")
    server = cell.instance(uuid)
    assert (server.vm_state, server.task_state, server.power_state) == (VmState.SHELVED, None, PowerState.SHUTDOWN)
    assert cell.drivers["a"].list_guests() == {uuid: PowerState.SHUTDOWN}
    rest(cell)
