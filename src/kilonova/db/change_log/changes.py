# SPDX-License-Identifier: Apache-2.0
"""Typed changes of the change log and of checkpoints, with their codec (ADR 17).

Other processes, replays of decisions and the next release read the bodies, so each body contains the version of its
format. Readers ignore unknown kinds and fields, and use defaults for missing fields: a new field has a default and does
not change the version. Readers refuse a body of a newer version.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec
from msgspec.structs import replace

from kilonova.errors import FromNewerRelease
from kilonova.records import dataclass

#: Version of the format; a change that older readers would misinterpret increments it. A body without a version has
#: version 1. Since version 2, the change log records the liveness of processes, not the heartbeats of hosts: a reader
#: of version 1 would ignore these changes and declare every host down.
VERSION = 2

#: Key of :class:`LoggedAgents` for hosts whose agents run in no known process.
NOWHERE = ""
#: Figures of an inventory: total, reserved, min_unit, max_unit, step_size, allocation_ratio, capacity, used.
InventoryFigures = tuple[int, int, int, int, int, float, int, int]
#: All metrics of a hypervisor: name → value.
LoggedMetrics = Mapping[str, float]
#: The version number of the isolation rules, logged whenever it is incremented.
LoggedIsolation = int


class LoggedProvider(msgspec.Struct, frozen=True):
    """A resource provider. Later changes of its usage are logged as :class:`LoggedUse`. Key: its uuid."""

    id: int
    name: str
    generation: int
    root: str
    parent: str | None
    inventories: Mapping[str, InventoryFigures]
    traits: Sequence[str]
    aggregates: Sequence[str]


class LoggedUse(msgspec.Struct, frozen=True):
    """The usage of a provider. ``used``: resource class → amount, for all its inventories. Key: the provider's uuid."""

    generation: int
    used: Mapping[str, int]


class LoggedCapabilities(msgspec.Struct, frozen=True, omit_defaults=True):
    """Capabilities of a hypervisor; see ``model.host.Capabilities``. ``abilities``: None if its agent reports none."""

    hypervisor_type: str
    hypervisor_version: int
    supported_instances: Sequence[tuple[str, str, str]]
    cpu_info: Mapping[str, Any]
    extra: Mapping[str, Any]
    abilities: Sequence[str] | None = None


class LoggedNode(msgspec.Struct, frozen=True):
    """A hypervisor. Key: its uuid, which is also the uuid of its provider."""

    host: str
    node: str
    host_ip: str
    capabilities: LoggedCapabilities
    failed_builds: int


class LoggedCellUse(msgspec.Struct, frozen=True):
    """The used part of a NUMA cell.

    ``pinned``: the pinned CPUs, as text. ``pages``: number of used pages of each size, in the order of the cell's
    sizes.
    """

    cpus: int
    memory_mib: int
    pinned: str
    pages: Sequence[int]


class LoggedCell(msgspec.Struct, frozen=True):
    """A NUMA cell.

    CPU sets have the form "0-3,8". ``pages``: tuples of page size in KiB, total number and reserved number.
    ``physnets``, ``tunneled``: as in :class:`~kilonova.model.numa.HostCell`.
    """

    id: int
    cpuset: str
    pcpuset: str
    memory_mib: int
    siblings: Sequence[str]
    pages: Sequence[tuple[int, int, int]]
    socket: int | None
    used: LoggedCellUse
    physnets: Sequence[str] = ()
    tunneled: bool = False


class LoggedPool(msgspec.Struct, frozen=True):
    """A pool of equal PCI devices of a hypervisor."""

    number: int
    vendor_id: str
    product_id: str
    numa_node: int | None
    dev_type: str
    tags: Mapping[str, str]
    total: int
    used: int


class LoggedDevices(msgspec.Struct, frozen=True):
    """The NUMA cells and PCI pools of a hypervisor. Key: the hypervisor's uuid."""

    cells: Sequence[LoggedCell]
    pools: Sequence[LoggedPool]


class LoggedService(msgspec.Struct, frozen=True):
    """A nova-compute service. Key: its host. Times are in epoch seconds. ``last_seen``: only in version 1."""

    disabled: bool
    reason: str | None
    forced_down: bool
    created: float | None
    last_seen: float | None = None


class LoggedProcess(msgspec.Struct, frozen=True):
    """A control process or agent session. Key: its uuid.

    ``silent_since``: time of the process's last heartbeat, in epoch seconds; None while the process counts as up.
    """

    silent_since: float | None


class LoggedAgents(msgspec.Struct, frozen=True):
    """Hosts whose agents run in one process from this commit on. The process also keeps the hosts that it had before.

    Key: uuid of the process, or ``NOWHERE`` for hosts whose agents no longer run in any process.
    """

    hosts: Sequence[str]


class LoggedHeartbeat(msgspec.Struct, frozen=True):
    """A heartbeat of the nova-compute services of ``hosts``. ``at``: epoch seconds. Key: empty. Only in version 1."""

    at: float
    hosts: Sequence[str]


class LoggedAggregate(msgspec.Struct, frozen=True):
    """A host aggregate. Key: its id."""

    uuid: str
    name: str
    hosts: Sequence[str]
    metadata: Mapping[str, str]


class LoggedGroup(msgspec.Struct, frozen=True):
    """A server group. Key: its uuid.

    ``max``: limit of servers per host. ``host``: the one host of an affinity group. ``hosts``: host → number of
    members.
    """

    policy: str
    max: int
    host: str | None
    hosts: Mapping[str, int]


class LoggedInstance(msgspec.Struct, frozen=True):
    """A server on a host. Key: its uuid; for the second host of a server that moves, the uuid of its migration.

    ``io``: whether the server counts as an I/O operation of its host. ``image``: properties of the server's image.
    """

    host: str
    node: str
    io: bool
    flavor: str
    image: Mapping[str, str]


Payload = (
    LoggedProvider
    | LoggedUse
    | LoggedNode
    | LoggedMetrics
    | LoggedDevices
    | LoggedService
    | LoggedProcess
    | LoggedAgents
    | LoggedHeartbeat
    | LoggedAggregate
    | LoggedIsolation
    | LoggedGroup
    | LoggedInstance
)

#: Kind of the changed object; each kind has one type of payload.
Kind = Literal[
    "provider",
    "usage",
    "node",
    "metrics",
    "devices",
    "service",
    "process",
    "agents",
    "heartbeat",
    "aggregate",
    "isolation",
    "group",
    "instance",
]
KINDS: frozenset[str] = frozenset(get_args(Kind))
_PAYLOADS: Mapping[Kind, Any] = {
    "provider": LoggedProvider,
    "usage": LoggedUse,
    "node": LoggedNode,
    "metrics": LoggedMetrics,
    "devices": LoggedDevices,
    "service": LoggedService,
    "process": LoggedProcess,
    "agents": LoggedAgents,
    "heartbeat": LoggedHeartbeat,
    "aggregate": LoggedAggregate,
    "isolation": LoggedIsolation,
    "group": LoggedGroup,
    "instance": LoggedInstance,
}


class Change(msgspec.Struct, frozen=True):
    """The new state of one object: ``value`` is its absolute value, or None if the object with ``key`` was deleted."""

    kind: Kind
    key: str
    value: Any


@dataclass(frozen=True, slots=True)
class Commit:
    """The changes of one transaction. ``claims``: ids of the claims that this transaction stored."""

    seq: int
    changes: tuple[Change, ...]
    claims: tuple[str, ...] = ()


# --- the codec --------------------------------------------------------------------------------------------------------


class _Body(msgspec.Struct):
    """The stored body of a change log row or of a checkpoint part. ``changes``: tuples of kind, key, value."""

    changes: list[tuple[str, str, msgspec.Raw]]
    claims: list[str] = []
    version: int = 1


class _Versioned(msgspec.Struct):
    version: int = 1


_ENCODER = msgspec.json.Encoder()
_BODY = msgspec.json.Decoder(_Body, strict=False)
_BARE = msgspec.json.Decoder(list[tuple[str, str, msgspec.Raw]])
_VERSIONED = msgspec.json.Decoder(_Versioned)
#: Text of a kind in a stored change → the typed kind, and the decoder of its values.
_KNOWN: Mapping[str, tuple[Kind, msgspec.json.Decoder[Any]]] = {
    # strict=False, because some databases return a boolean as 0 or 1.
    kind: (kind, msgspec.json.Decoder(payload | None, strict=False))
    for kind, payload in _PAYLOADS.items()
}
_CAPABILITIES = msgspec.json.Decoder(LoggedCapabilities, strict=False)
_ABILITIES = msgspec.json.Decoder(list[str] | None)


def encode(changes: Sequence[Change], claims: Sequence[str] = ()) -> bytes:
    """Return the stored form of changes and claims."""
    told = [(change.kind, change.key, change.value) for change in changes]
    return _ENCODER.encode({"version": VERSION, "changes": told, "claims": claims})


def decode(body: bytes, what: str) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Return the changes and claims of a body. ``what``: name of the body in errors. Raises: FromNewerRelease."""
    if body.startswith(b"["):  # checkpoints of the first format are a bare JSON list
        return _typed(_BARE.decode(body)), ()
    try:
        read = _BODY.decode(body)
        version = read.version
        if version <= VERSION:
            return _typed(read.changes), tuple(read.claims)
    except msgspec.ValidationError:
        version = _VERSIONED.decode(body).version
        if version <= VERSION:
            raise
    raise FromNewerRelease(
        f"{what} was written by a newer release of Kilonova: its format is {version}, and this release reads formats"
        f" up to {VERSION}."
    )


def _typed(changes: Sequence[tuple[str, str, msgspec.Raw]]) -> tuple[Change, ...]:
    return tuple(
        [
            Change(known[0], key, known[1].decode(value))
            for kind, key, value in changes
            if (known := _KNOWN.get(kind)) is not None
        ]
    )


def capabilities_from_text(text: str, abilities: str | None) -> LoggedCapabilities:
    """Parse the ``capabilities`` and ``abilities`` columns of a hypervisor."""
    capabilities = _CAPABILITIES.decode(text)
    return capabilities if abilities is None else replace(capabilities, abilities=_ABILITIES.decode(abilities))


def capabilities_key(value: LoggedCapabilities) -> bytes:
    """Return a key that is equal for equal capabilities."""
    return msgspec.json.encode(value, order="sorted")
