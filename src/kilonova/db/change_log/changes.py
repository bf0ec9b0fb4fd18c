# SPDX-License-Identifier: Apache-2.0
"""What the change log and checkpoints hold, typed, and the one way to write and to read it (ADR 17).

Other processes, decisions that are made again, and the next release read it. So a body carries the version of its
format. Readers leave out kinds and fields that they do not know, and give fields that are missing their defaults:
what is only added keeps the version, and has a default. A version that is newer than one's own is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from kilonova.errors import FromNewerRelease

#: Raised when older readers would misread what is written. Bodies without one are of version 1. Since version 2 signs
#: of life are those of processes, of which older readers know nothing: they would take every host for silent.
VERSION = 2

#: Stands for the process of hosts that have none.
NOWHERE = ""
#: total, reserved, min_unit, max_unit, step_size, allocation_ratio, capacity, used
InventoryFigures = tuple[int, int, int, int, int, float, int, int]
#: Measurements of a hypervisor by name, all of them.
LoggedMetrics = Mapping[str, float]
#: The version of the isolation rules.
LoggedIsolation = int


class LoggedProvider(msgspec.Struct, frozen=True):
    """A resource provider but for its use by later commits. Key: its uuid."""

    id: int
    name: str
    generation: int
    root: str
    parent: str | None
    inventories: Mapping[str, InventoryFigures]
    traits: Sequence[str]
    aggregates: Sequence[str]


class LoggedUse(msgspec.Struct, frozen=True):
    """What is used of a provider: resource class → amount, of all that it has. Key: the provider's uuid."""

    generation: int
    used: Mapping[str, int]


class LoggedCapabilities(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a hypervisor can do; see ``model.host.Capabilities``. ``abilities``: None where its agent reports none."""

    hypervisor_type: str
    hypervisor_version: int
    supported_instances: Sequence[tuple[str, str, str]]
    cpu_info: Mapping[str, Any]
    extra: Mapping[str, Any]
    abilities: Sequence[str] | None = None


class LoggedNode(msgspec.Struct, frozen=True):
    """A hypervisor. Key: its uuid, which is its provider's, too."""

    host: str
    node: str
    host_ip: str
    capabilities: LoggedCapabilities
    failed_builds: int


class LoggedCellUse(msgspec.Struct, frozen=True):
    """What is taken of a cell. ``pinned``: as a list of CPUs; ``pages``: of each size, in the order of the cell."""

    cpus: int
    memory_mib: int
    pinned: str
    pages: Sequence[int]


class LoggedCell(msgspec.Struct, frozen=True):
    """A NUMA cell. Sets of CPUs as texts; ``pages``: size in KiB, total, reserved."""

    id: int
    cpuset: str
    pcpuset: str
    memory_mib: int
    siblings: Sequence[str]
    pages: Sequence[tuple[int, int, int]]
    socket: int | None
    used: LoggedCellUse


class LoggedPool(msgspec.Struct, frozen=True):
    """Equal PCI devices of a hypervisor."""

    number: int
    vendor_id: str
    product_id: str
    numa_node: int | None
    dev_type: str
    tags: Mapping[str, str]
    total: int
    used: int


class LoggedDevices(msgspec.Struct, frozen=True):
    """The cells and pools of a hypervisor. Key: its uuid."""

    cells: Sequence[LoggedCell]
    pools: Sequence[LoggedPool]


class LoggedService(msgspec.Struct, frozen=True):
    """A nova-compute. Key: its host. Units: epoch seconds. ``last_seen``: only in version 1."""

    disabled: bool
    reason: str | None
    forced_down: bool
    created: float | None
    last_seen: float | None = None


class LoggedProcess(msgspec.Struct, frozen=True):
    """A process with agents. Key: its uuid.

    ``silent_since``: its last sign of life, epoch seconds; None while it counts as up.
    """

    silent_since: float | None


class LoggedAgents(msgspec.Struct, frozen=True):
    """The agents of ``hosts`` run in a process from now on, beside those that it has already.

    Key: its uuid, or ``NOWHERE`` for hosts that have no process any more.
    """

    hosts: Sequence[str]


class LoggedHeartbeat(msgspec.Struct, frozen=True):
    """The nova-compute of ``hosts`` were alive at ``at``, epoch seconds. Key: empty. Only in version 1."""

    at: float
    hosts: Sequence[str]


class LoggedAggregate(msgspec.Struct, frozen=True):
    """A host aggregate. Key: its number."""

    uuid: str
    name: str
    hosts: Sequence[str]
    metadata: Mapping[str, str]


class LoggedGroup(msgspec.Struct, frozen=True):
    """A server group. ``max``: servers a host; ``host``: the one that affinity holds; ``hosts``: host → members."""

    policy: str
    max: int
    host: str | None
    hosts: Mapping[str, int]


class LoggedInstance(msgspec.Struct, frozen=True):
    """An instance that is on a host. ``io``: whether it keeps the host's disks busy; ``image``: its properties."""

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

_PAYLOADS: Mapping[str, Any] = {
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
KINDS = frozenset(_PAYLOADS)


@dataclass(frozen=True, slots=True)
class Change:
    """One mirrored fact, as an absolute value; ``value`` None says that ``key`` is gone."""

    kind: str
    key: str
    value: Any


@dataclass(frozen=True, slots=True)
class Commit:
    """What one transaction changed. ``claims`` are the ids of the claims that became durable with it."""

    seq: int
    changes: tuple[Change, ...]
    claims: tuple[str, ...] = ()


# --- the codec --------------------------------------------------------------------------------------------------------


class _Body(msgspec.Struct):
    """What is stored. ``changes``: kind, key, value."""

    changes: list[tuple[str, str, msgspec.Raw]]
    claims: list[str] = []
    version: int = 1


class _Versioned(msgspec.Struct):
    version: int = 1


_ENCODER = msgspec.json.Encoder()
_BODY = msgspec.json.Decoder(_Body, strict=False)
_BARE = msgspec.json.Decoder(list[tuple[str, str, msgspec.Raw]])
_VERSIONED = msgspec.json.Decoder(_Versioned)
_VALUES: Mapping[str, msgspec.json.Decoder[Any]] = {
    # Databases differ in what they call true, and none of them in what they mean by it.
    kind: msgspec.json.Decoder(payload | None, strict=False)
    for kind, payload in _PAYLOADS.items()
}
_CAPABILITIES = msgspec.json.Decoder(LoggedCapabilities, strict=False)
_ABILITIES = msgspec.json.Decoder(list[str] | None)


def encode(changes: Sequence[Change], claims: Sequence[str] = ()) -> bytes:
    """Return changes as they are stored."""
    told = [(change.kind, change.key, change.value) for change in changes]
    return _ENCODER.encode({"version": VERSION, "changes": told, "claims": claims})


def decode(body: bytes, what: str) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Read changes and claims. ``what``: names the body in errors. Raises: FromNewerRelease."""
    if body.startswith(b"["):  # so checkpoints were before they had a version
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
    return tuple([Change(kind, key, _VALUES[kind].decode(value)) for kind, key, value in changes if kind in _VALUES])


def capabilities_from_text(text: str, abilities: str | None) -> LoggedCapabilities:
    """Read capabilities, and the abilities beside them, as a hypervisor's row has them."""
    capabilities = _CAPABILITIES.decode(text)
    return capabilities if abilities is None else replace(capabilities, abilities=_ABILITIES.decode(abilities))


def capabilities_key(value: LoggedCapabilities) -> bytes:
    """Return the same for equal capabilities."""
    return msgspec.json.encode(value, order="sorted")
