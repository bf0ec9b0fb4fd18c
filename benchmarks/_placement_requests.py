# SPDX-License-Identifier: Apache-2.0
"""The write requests of the Placement API that the benchmark ``placement_writes`` sends, in their order."""

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks._placement_data import SERVER, TRAITS
from benchmarks._placement_servers import Connection, Target

#: A request: (method, path, body).
Call = tuple[str, str, Any]


@dataclass(slots=True)
class Cloud:
    """State of a target that requests need: the generation of each host, and the objects that earlier calls created."""

    target: Target
    control: Connection
    hosts: list[str]
    generations: dict[str, int] = field(default_factory=dict)
    made: dict[str, list[Any]] = field(default_factory=dict)
    turn: int = 0

    def refresh(self) -> None:
        """Read the present generations of the hosts. The time of this request is not measured."""
        body = self.control.ask(self.target.request("GET", "/resource_providers"))[1]
        self.generations = {one["uuid"]: one["generation"] for one in json.loads(body)["resource_providers"]}

    def some_hosts(self, count: int) -> list[str]:
        """Return the next ``count`` hosts in rotation, so concurrent requests do not conflict on a generation."""
        start = self.turn * count % len(self.hosts)
        self.turn += 1
        return (self.hosts[start:] + self.hosts[:start])[:count]


@dataclass(frozen=True, slots=True)
class Write:
    """A kind of write. ``calls``: builds a number of calls, or one call for each object that an earlier kind made."""

    name: str
    calls: Callable[[Cloud, int], list[Call]]


def _new_uuid() -> str:
    return str(uuid.uuid4())


def _inventories(total: int) -> dict[str, Any]:
    return {
        "VCPU": {"total": total, "allocation_ratio": 4.0, "max_unit": total},
        "MEMORY_MB": {"total": total * 4_096, "reserved": 512, "max_unit": total * 4_096},
        "DISK_GB": {"total": total * 64, "max_unit": total * 64},
    }


def _post_providers(cloud: Cloud, count: int) -> list[Call]:
    made = [_new_uuid() for _ in range(count)]
    cloud.made["providers"] = made
    return [("POST", "/resource_providers", {"uuid": own, "name": f"new-{own}"}) for own in made]


def _post_children(cloud: Cloud, count: int) -> list[Call]:
    parents = cloud.some_hosts(count)
    made = [_new_uuid() for _ in range(count)]
    return [
        ("POST", "/resource_providers", {"uuid": own, "name": f"child-{own}", "parent_provider_uuid": parent})
        for own, parent in zip(made, parents, strict=True)
    ]


def _put_providers(cloud: Cloud, _count: int) -> list[Call]:
    return [("PUT", f"/resource_providers/{own}", {"name": f"other-{own}"}) for own in cloud.made["providers"]]


def _delete_providers(cloud: Cloud, _count: int) -> list[Call]:
    return [("DELETE", f"/resource_providers/{own}", None) for own in cloud.made["providers"]]


def _of_hosts(make: Callable[[Cloud, str, int], tuple[str, str, Any]]) -> Callable[[Cloud, int], list[Call]]:
    def calls(cloud: Cloud, count: int) -> list[Call]:
        cloud.refresh()
        chosen = cloud.some_hosts(count)
        cloud.made["hosts"] = chosen
        made = (make(cloud, host, cloud.generations[host]) for host in chosen)
        return [
            (method, f"/resource_providers/{host}{path}", body)
            for host, (method, path, body) in zip(chosen, made, strict=True)
        ]

    return calls


def _same_hosts(make: Callable[[Cloud, str, int], tuple[str, str, Any]]) -> Callable[[Cloud, int], list[Call]]:
    def calls(cloud: Cloud, _count: int) -> list[Call]:
        cloud.refresh()
        made = [(host, make(cloud, host, cloud.generations[host])) for host in cloud.made["hosts"]]
        return [(method, f"/resource_providers/{host}{path}", body) for host, (method, path, body) in made]

    return calls


def _put_inventories(cloud: Cloud, _host: str, generation: int) -> tuple[str, str, Any]:
    shown = {"resource_provider_generation": generation, "inventories": _inventories(64 + cloud.turn % 7)}
    return "PUT", "/inventories", shown


def _put_inventory(cloud: Cloud, _host: str, generation: int) -> tuple[str, str, Any]:
    body = {"resource_provider_generation": generation, **_inventories(128 + cloud.turn % 7)["DISK_GB"]}
    return "PUT", "/inventories/DISK_GB", body


def _put_traits(cloud: Cloud, _host: str, generation: int) -> tuple[str, str, Any]:
    wanted = [name for number, name in enumerate(TRAITS) if number % 4 != cloud.turn % 4]
    return "PUT", "/traits", {"resource_provider_generation": generation, "traits": wanted}


def _put_aggregates(cloud: Cloud, _host: str, generation: int) -> tuple[str, str, Any]:
    named = [str(uuid.uuid5(uuid.NAMESPACE_OID, f"{cloud.turn % 3}-{number}")) for number in range(3)]
    return "PUT", "/aggregates", {"resource_provider_generation": generation, "aggregates": named}


def _owner(generation: int | None) -> dict[str, Any]:
    owner = {"project_id": "bench-project", "user_id": "bench-user", "consumer_type": "INSTANCE"}
    return {**owner, "consumer_generation": generation}


def _put_allocations(cloud: Cloud, count: int) -> list[Call]:
    made = [(_new_uuid(), host) for host in cloud.some_hosts(count)]
    cloud.made["consumers"] = made
    return [
        ("PUT", f"/allocations/{own}", {"allocations": {host: {"resources": SERVER}}, **_owner(None)})
        for own, host in made
    ]


def _change_allocations(cloud: Cloud, _count: int) -> list[Call]:
    less = {**SERVER, "VCPU": 1}
    return [
        ("PUT", f"/allocations/{own}", {"allocations": {host: {"resources": less}}, **_owner(1)})
        for own, host in cloud.made["consumers"]
    ]


def _post_allocations(cloud: Cloud, _count: int) -> list[Call]:
    """Return calls that move the allocations of each consumer to a new consumer, as a migration does."""
    moved = [(_new_uuid(), own, host) for own, host in cloud.made["consumers"]]
    cloud.made["consumers"] = [(new, host) for new, _, host in moved]
    return [
        (
            "POST",
            "/allocations",
            {
                own: {"allocations": {}, **_owner(2)},
                new: {"allocations": {host: {"resources": SERVER}}, **_owner(None)},
            },
        )
        for new, own, host in moved
    ]


def _delete_allocations(cloud: Cloud, _count: int) -> list[Call]:
    return [("DELETE", f"/allocations/{own}", None) for own, _ in cloud.made["consumers"]]


def _reshape(cloud: Cloud, count: int) -> list[Call]:
    cloud.refresh()
    calls: list[Call] = []
    for host in cloud.some_hosts(count):
        shape = {"resource_provider_generation": cloud.generations[host], "inventories": _inventories(200 + cloud.turn)}
        calls.append(("POST", "/reshaper", {"inventories": {host: shape}, "allocations": {}}))
    return calls


def _post_classes(cloud: Cloud, count: int) -> list[Call]:
    made = [f"CUSTOM_{uuid.uuid4().hex.upper()}" for _ in range(count)]
    cloud.made["classes"] = made
    return [("POST", "/resource_classes", {"name": name}) for name in made]


def _put_classes(cloud: Cloud, _count: int) -> list[Call]:
    cloud.made["classes"] = [f"{name}_B" for name in cloud.made["classes"]]
    return [("PUT", f"/resource_classes/{name}", None) for name in cloud.made["classes"]]


def _delete_classes(cloud: Cloud, _count: int) -> list[Call]:
    return [("DELETE", f"/resource_classes/{name}", None) for name in cloud.made["classes"]]


def _put_new_traits(cloud: Cloud, count: int) -> list[Call]:
    made = [f"CUSTOM_{uuid.uuid4().hex.upper()}" for _ in range(count)]
    cloud.made["traits"] = made
    return [("PUT", f"/traits/{name}", None) for name in made]


def _delete_new_traits(cloud: Cloud, _count: int) -> list[Call]:
    return [("DELETE", f"/traits/{name}", None) for name in cloud.made["traits"]]


#: The measured writes, in order: later ones change or delete the objects that earlier ones create.
WRITES = (
    Write("POST provider", _post_providers),
    Write("PUT provider", _put_providers),
    Write("DELETE provider", _delete_providers),
    Write("POST child provider", _post_children),
    Write("PUT inventories", _of_hosts(_put_inventories)),
    Write("PUT inventory", _same_hosts(_put_inventory)),
    Write("DELETE inventory", _same_hosts(lambda *_: ("DELETE", "/inventories/DISK_GB", None))),
    Write(
        "POST inventory",
        _same_hosts(
            lambda *_: ("POST", "/inventories", {"resource_class": "DISK_GB", **_inventories(64)["DISK_GB"]}),
        ),
    ),
    Write("DELETE inventories", _same_hosts(lambda *_: ("DELETE", "/inventories", None))),
    Write("PUT inventories, new", _same_hosts(_put_inventories)),
    Write("PUT provider traits", _of_hosts(_put_traits)),
    Write("DELETE provider traits", _same_hosts(lambda *_: ("DELETE", "/traits", None))),
    Write("PUT aggregates", _of_hosts(_put_aggregates)),
    Write("PUT allocations", _put_allocations),
    Write("PUT allocations, again", _change_allocations),
    Write("POST allocations", _post_allocations),
    Write("DELETE allocations", _delete_allocations),
    Write("POST reshaper", _reshape),
    Write("POST resource class", _post_classes),
    Write("DELETE resource class", _delete_classes),
    Write("PUT resource class", _put_classes),
    Write("PUT trait", _put_new_traits),
    Write("DELETE trait", _delete_new_traits),
)
