# SPDX-License-Identifier: Apache-2.0
"""Starters of all workflows: the initial state and the request of each. Every registered workflow needs an entry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from crash.kept_neutron import KeptNeutron
from kilonova.compute.virt.fake.guests import GuestFile
from kilonova.conductor.workflow_engine.run import Interrupt
from kilonova.model.image import Image
from kilonova.model.instance import PowerState
from kilonova.model.network_request import RequestedNetwork
from kilonova.model.pci import VF
from kilonova.scenario.model import SimulatedHost, SimulatedPool
from support.cell import Cell, host, networks
from support.network_agents import add_agent

#: Takes the cell and the ids of the existing servers, and adds the ids of the servers it creates.
Act = Callable[[Cell, list[str]], None]

#: Hosts of different sizes, so that each decision has exactly one best host; copies from node1 are slow.
HOSTS = (
    host("node1", vcpus=6, memory_mib=8192, live_migration_s=0.05),
    host("node2", vcpus=8, memory_mib=12288, live_migration_s=0.05),
    host("node3", vcpus=10, memory_mib=16384, live_migration_s=0.05),
)
#: The same hosts, which start guests paused until their ports are plugged.
HOLDING_HOSTS = tuple(replace(each, starts_paused=True) for each in HOSTS)
#: The same hosts with virtual functions of a card for overlay networks.
CARD_HOSTS = tuple(replace(each, pci=(SimulatedPool("8086", "154c", 2, dev_type=VF),)) for each in HOSTS)
OTHER_IMAGE = Image("0c4c4a3a-42d5-4a6a-8a6b-16f1d7a0b7a4", "fedora")


@dataclass(frozen=True)
class Starter:
    """Start of a workflow. ``begin``: sends the request after all of ``before`` have finished.

    ``outside``: a change at the host right before it, which leaves the state inconsistent until the workflow ends.
    ``networks``: whether the cloud has a network service.
    """

    begin: Act
    before: tuple[Act, ...] = ()
    outside: Act | None = None
    hosts: tuple[SimulatedHost, ...] = HOSTS
    piece: int = 100
    networks: bool = False


def _boot(cell: Cell, known: list[str], count: int = 1, **asked: Any) -> None:
    known += cell.boot(count, config_drive=True, **asked)


def _networks(cell: Cell) -> tuple[str, str, str]:
    """Return two networks and a port of the user on the second; they are made for the first server."""
    neutron = cell.neutron
    assert isinstance(neutron, KeptNeutron)
    if not neutron.store["networks"]:
        neutron.make_port(neutron.make_network("other", "wonder", v4="10.2.0.0/24"), "wonder", name="of the user")
        neutron.make_network("private", "wonder")
        neutron.save()
    other, private = (network["id"] for network in neutron.store["networks"].values())
    port = next(port["id"] for port in neutron.store["ports"].values() if port["name"] == "of the user")
    return private, other, port


def _boot_with_networks(cell: Cell, known: list[str], **asked: Any) -> None:
    """Boot a server with a new port on one network and the user's port on another."""
    private, other, port = _networks(cell)
    known += cell.boot(networks=networks(private, other, ports={other: port}), **asked)


def _guarantee(cell: Cell, _known: list[str]) -> None:
    """Let the port of the user request a bandwidth, which all hosts can give."""
    _, _, port = _networks(cell)
    neutron = cell.neutron
    assert isinstance(neutron, KeptNeutron)
    for each in cell.hosts:
        add_agent(cell.database, each.name)
    neutron.store["ports"][port]["qos_policy_id"] = neutron.make_policy(egress=1_000)
    neutron.save()


def _direct(cell: Cell, _known: list[str]) -> None:
    """Let the port of the user need a virtual function."""
    _, _, port = _networks(cell)
    neutron = cell.neutron
    assert isinstance(neutron, KeptNeutron)
    neutron.store["ports"][port]["binding:vnic_type"] = "direct"
    neutron.save()


def _attach(cell: Cell, known: list[str], *, of_user: bool = False, demands: bool = False) -> None:
    """Attach a new port, or the port of the user, to the first server."""
    private, other, port = _networks(cell)
    of_the_user = RequestedNetwork(network_id=other, port_id=port, demands=demands)
    cell.attach(known[0], of_the_user if of_user else RequestedNetwork(network_id=private))


def _detach(cell: Cell, known: list[str], *, of_user: bool = False) -> None:
    vif = next(vif for vif in cell.interfaces(known[0]) if vif.created is not of_user)
    cell.detach(known[0], vif.port_id)


def _boot_apart(cell: Cell, known: list[str]) -> None:
    known += cell.boot(2, group=cell.add_group("anti-affinity"))


def _boot_in_group(cell: Cell, known: list[str]) -> None:
    known += cell.boot(force_host="node1", group=cell.add_group("anti-affinity"))


def _boot_in_group_with_networks(cell: Cell, known: list[str]) -> None:
    _boot_with_networks(cell, known, force_host="node1", group=cell.add_group("anti-affinity"))


def _on_first(act: Callable[..., None], *args: Any, **facts: Any) -> Act:
    return lambda cell, known: act(cell, known[0], *args, **facts)


def _guest_ends(cell: Cell, known: list[str], *, is_gone: bool = False) -> None:
    file = GuestFile("node1", cell.folder / "hypervisors" / "node1.json")
    guest = file.guest(known[0])
    assert guest is not None
    file.put(known[0], guest=None if is_gone else replace(guest, state=PowerState.SHUTDOWN))


_WITH_NETWORKS: Act = partial(_boot_with_networks, force_host="node1")
_ON_NODE1: Act = partial(_boot, force_host="node1")
_STOP = _on_first(Cell.power, "stop")
_RESCUE = _on_first(Cell.rescue)
_PAUSE, _SUSPEND = _on_first(Cell.power, "pause"), _on_first(Cell.power, "suspend")
_RESIZE, _MIGRATE = _on_first(Cell.resize), _on_first(Cell.migrate)
_RESIZE_HERE = _on_first(Cell.resize, stays=True)
_SHELVE, _SHELVE_HERE = _on_first(Cell.shelve), _on_first(Cell.shelve, offload=False)
_UNSHELVE = _on_first(Cell.unshelve)
_CREATE_IMAGE, _CREATE_BACKUP = _on_first(Cell.create_image), _on_first(Cell.create_backup)
_SOFT_DELETE = _on_first(Cell.delete, soft=True)
_CONFIRM, _REVERT = _on_first(Cell.confirm), _on_first(Cell.revert)

#: An attach of the port of the user, which requests a bandwidth or needs a virtual function.
_ATTACH_DEMANDING: Act = partial(_attach, of_user=True, demands=True)

_STARTERS: Mapping[str, Mapping[str, Starter]] = {
    "batch": {
        "": Starter(partial(_boot, count=5), piece=2),
        "without room": Starter(partial(_boot, count=9), piece=2, hosts=HOSTS[:1]),
    },
    "build": {
        "": Starter(_boot),
        "networks": Starter(_boot_with_networks, hosts=HOLDING_HOSTS, networks=True),
        "two apart": Starter(_boot_apart),
    },
    "delete": {
        "": Starter(_on_first(Cell.delete), (_ON_NODE1,)),
        "resized": Starter(_on_first(Cell.delete), (_boot_in_group, _RESIZE)),
        "shelved": Starter(_on_first(Cell.delete), (_boot_in_group, _SHELVE)),
        "soft-deleted": Starter(_on_first(Cell.force_delete), (_ON_NODE1, _SOFT_DELETE)),
    },
    "soft-delete": {
        "": Starter(_SOFT_DELETE, (_boot_in_group,)),
        "resized": Starter(_SOFT_DELETE, (_boot_in_group, _RESIZE)),
    },
    "restore": {"": Starter(_on_first(Cell.restore), (_ON_NODE1, _SOFT_DELETE))},
    "start": {"": Starter(_on_first(Cell.power, "start"), (_ON_NODE1, _STOP))},
    "stop": {"": Starter(_STOP, (_ON_NODE1,))},
    "force-stop": {"": Starter(_on_first(Cell.force_stop), (_ON_NODE1, _STOP))},
    "reboot": {
        "": Starter(_on_first(Cell.power, "reboot"), (_ON_NODE1,)),
        "off": Starter(_on_first(Cell.power, "reboot"), (_ON_NODE1,), _guest_ends),
    },
    "hard-reboot": {
        "": Starter(_on_first(Cell.power, "hard-reboot"), (_ON_NODE1,)),
        "gone": Starter(_on_first(Cell.power, "hard-reboot"), (_ON_NODE1,), partial(_guest_ends, is_gone=True)),
    },
    "pause": {"": Starter(_PAUSE, (_ON_NODE1,))},
    "unpause": {"": Starter(_on_first(Cell.power, "unpause"), (_ON_NODE1, _PAUSE))},
    "suspend": {"": Starter(_SUSPEND, (_ON_NODE1,))},
    "resume": {"": Starter(_on_first(Cell.power, "resume"), (_ON_NODE1, _SUSPEND))},
    "rescue": {"": Starter(_RESCUE, (_ON_NODE1,)), "off": Starter(_RESCUE, (_ON_NODE1, _STOP))},
    "unrescue": {"": Starter(_on_first(Cell.unrescue), (_ON_NODE1, _RESCUE))},
    "change-password": {"": Starter(_on_first(Cell.change_password), (_ON_NODE1,))},
    "crash-dump": {"": Starter(_on_first(Cell.crash_dump), (_ON_NODE1,))},
    "resize": {
        "": Starter(_RESIZE, (_boot_in_group,)),
        "same host": Starter(_RESIZE_HERE, (_ON_NODE1,), hosts=HOSTS[:1]),
    },
    "migrate": {"": Starter(_MIGRATE, (_ON_NODE1, _STOP)), "on": Starter(_MIGRATE, (_ON_NODE1,))},
    "confirm-resize": {
        "": Starter(_CONFIRM, (_boot_in_group, _RESIZE)),
        "same host": Starter(_CONFIRM, (_ON_NODE1, _RESIZE_HERE), hosts=HOSTS[:1]),
        "off": Starter(_CONFIRM, (_ON_NODE1, _STOP, _MIGRATE)),
    },
    "revert-resize": {
        "": Starter(_REVERT, (_boot_in_group, _RESIZE)),
        "same host": Starter(_REVERT, (_ON_NODE1, _RESIZE_HERE), hosts=HOSTS[:1]),
        "off": Starter(_REVERT, (_ON_NODE1, _STOP, _MIGRATE)),
    },
    "evacuate": {
        "": Starter(_on_first(Cell.evacuate), (_boot_in_group,)),
        "off": Starter(_on_first(Cell.evacuate), (_ON_NODE1, _STOP)),
    },
    "rebuild": {
        "": Starter(_on_first(Cell.rebuild, OTHER_IMAGE, name="anew"), (_ON_NODE1,)),
        "same image, off": Starter(_on_first(Cell.rebuild), (_ON_NODE1, _STOP)),
    },
    "live-migrate": {"": Starter(_on_first(Cell.live_migrate), (_boot_in_group,))},
    "create-image": {"": Starter(_CREATE_IMAGE, (_ON_NODE1,)), "off": Starter(_CREATE_IMAGE, (_ON_NODE1, _STOP))},
    "cache-images": {"": Starter(lambda cell, _known: cell.cache_image())},
    "shelve": {
        "": Starter(_SHELVE, (_boot_in_group,)),
        "stays": Starter(_SHELVE_HERE, (_ON_NODE1,)),
        "paused": Starter(_SHELVE, (_ON_NODE1, _PAUSE)),
        "off": Starter(_SHELVE_HERE, (_ON_NODE1, _STOP)),
    },
    "shelve-offload": {"": Starter(_on_first(Cell.offload), (_boot_in_group, _SHELVE_HERE))},
    "unshelve": {
        "": Starter(_UNSHELVE, (_boot_in_group, _SHELVE)),
        "on its host": Starter(_UNSHELVE, (_ON_NODE1, _SHELVE_HERE)),
    },
    "create-backup": {"": Starter(_CREATE_BACKUP, (_ON_NODE1, _CREATE_BACKUP))},
    "attach-interface": {
        "": Starter(_attach, (_WITH_NETWORKS,), networks=True),
        "of user, off": Starter(partial(_attach, of_user=True), (_ON_NODE1, _STOP), networks=True),
        "guaranteed": Starter(_ATTACH_DEMANDING, (_ON_NODE1, _guarantee), networks=True),
        "direct": Starter(_ATTACH_DEMANDING, (_ON_NODE1, _direct), hosts=CARD_HOSTS, networks=True),
    },
    "detach-interface": {
        "": Starter(_detach, (_WITH_NETWORKS,), networks=True),
        "of user": Starter(partial(_detach, of_user=True), (_WITH_NETWORKS,), networks=True),
        "guaranteed": Starter(
            partial(_detach, of_user=True), (_ON_NODE1, _guarantee, _ATTACH_DEMANDING), networks=True
        ),
        "direct": Starter(
            partial(_detach, of_user=True),
            (_ON_NODE1, _direct, _ATTACH_DEMANDING),
            hosts=CARD_HOSTS,
            networks=True,
        ),
    },
}


def _on_networks(starter: Starter) -> Starter:
    """Return the same start in a cloud with a network service, for a server with two ports."""
    boot = {_ON_NODE1: _WITH_NETWORKS, _boot_in_group: _boot_in_group_with_networks}
    begin = boot.get(starter.begin, starter.begin)
    before = tuple(boot.get(act, act) for act in starter.before)
    return replace(starter, begin=begin, before=before, hosts=HOLDING_HOSTS, networks=True)


#: Kind of workflow with steps for ports → the starter that is also used for a server with ports.
WITH_NETWORKS: Mapping[str, str] = {
    "delete": "",
    "soft-delete": "",
    "hard-reboot": "",
    "rebuild": "",
    "resize": "",
    "migrate": "on",
    "confirm-resize": "",
    "revert-resize": "",
    "evacuate": "",
    "live-migrate": "",
    "shelve": "",
    "shelve-offload": "",
    "unshelve": "",
}
STARTERS: Mapping[str, Mapping[str, Starter]] = {
    kind: {**starters, "networks": _on_networks(starters[WITH_NETWORKS[kind]])} if kind in WITH_NETWORKS else starters
    for kind, starters in _STARTERS.items()
}
INTERRUPTERS: Mapping[Interrupt, Act] = {
    Interrupt.DELETE: _on_first(Cell.delete),
    Interrupt.SOFT_DELETE: _SOFT_DELETE,
    Interrupt.TIMEOUT: lambda cell, _known: cell.time_out_builds(),
    Interrupt.ABORT: _on_first(Cell.abort),
    Interrupt.OTHER_ACTION: _on_first(Cell.power, "hard-reboot"),
    Interrupt.FORCE_COMPLETE: _on_first(Cell.force_complete),
    Interrupt.EVACUATE: _on_first(Cell.evacuate),
}
