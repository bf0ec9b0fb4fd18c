# SPDX-License-Identifier: Apache-2.0
"""Request specs: the requests by which instances were created, kept with their scheduler hints for later moves.

All instances of a request share one row, which is deleted with the last of them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import flavors, server_migrations
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared, PreparedInsert
from kilonova.db.core.statements import pieces
from kilonova.db.core.transaction import Transaction
from kilonova.db.server_migrations import OtherSide
from kilonova.deadline import heeding
from kilonova.errors import NotFound
from kilonova.identifiers import new_uuid
from kilonova.model.config_drive import PublicKey
from kilonova.model.image import Image
from kilonova.model.instance import Instance
from kilonova.model.local_disk import NO_LOCAL_DISKS, EphemeralDisk, LocalDisks, SwapDisk
from kilonova.model.placed_server import PlacedServer
from kilonova.model.request_spec import RequestedNetwork, RequestSpec, ResourceGroup, StoredRequest
from kilonova.model.server_migration import MoveKind
from kilonova.records import dataclass

_INSERT = PreparedInsert(t.request_specs)
_R = t.request_specs.c
_NAMED = _R.uuid.in_(sa.bindparam("uuids", expanding=True))
_GET = Prepared(sa.select(_R.uuid, _R.body, _R.user_data).where(_NAMED))
_SHOWN = Prepared(sa.select(_R.uuid, sa.cast(_R.body, sa.Text), _R.user_data).where(_NAMED))
_PLAIN = (
    "project_id",
    "user_id",
    "request_id",
    "availability_zone",
    "force_host",
    "force_node",
    "requested_host",
    "requested_node",
    "volume_backed",
    "remote_address",
    "is_admin",
)
_STORED = frozenset(
    {*_PLAIN, "flavor", "image", "hints", "move", "unseen_instances", "ignore_hosts", "group", "networks"}
)
_IMAGE_FIELDS = tuple(Image.__dataclass_fields__)


def insert(tx: Transaction, requests: Sequence[StoredRequest]) -> None:
    """Insert requests, one row for all instances of a request."""
    rows = [
        {
            "uuid": request.uuid,
            "request_id": request.spec.request_id,
            "user_data": request.user_data,
            "body": _body(request),
        }
        for request in requests
    ]
    _INSERT.run(tx.connection, rows)


def get(connection: Connection, uuid: str) -> StoredRequest:
    """Return a stored request. Raises: NotFound."""
    rows = _GET.rows(connection, uuids=[uuid])
    if not rows:
        raise NotFound(f"Request spec {uuid} could not be found.")
    return _request(*rows[0])


def get_many(connection: Connection, found: Iterable[Instance]) -> dict[str, StoredRequest]:
    """Return instance uuid → its request; instances without a request are left out.

    Instances of one request share the returned object.
    """
    wanted = {instance.uuid: instance.request_spec_uuid for instance in found if instance.request_spec_uuid}
    uuids = list(dict.fromkeys(wanted.values()))
    requests: dict[str, StoredRequest] = {}
    for some in pieces(uuids):
        for row in heeding(_GET.rows(connection, uuids=some)):
            requests[row[0]] = _request(*row)
    return {uuid: requests[name] for uuid, name in wanted.items() if name in requests}


class _ShownImage(msgspec.Struct):
    properties: dict[str, Any]


class _ShownBody(msgspec.Struct):
    """The parts of a stored request that the API shows; the decoder skips the other parts, which are larger."""

    availability_zone: str | None
    image: _ShownImage | None
    hints: dict[str, Any]
    group: str | None
    trusted_certs: list[str] = []


_SHOWN_BODY = msgspec.json.Decoder(_ShownBody)


@dataclass(frozen=True, slots=True)
class ShownRequest:
    """The parts of a request that the API shows with a server."""

    availability_zone: str | None
    image_properties: Mapping[str, str]
    hints: Mapping[str, Sequence[str]]
    group_uuid: str | None
    user_data: str | None
    trusted_certs: Sequence[str]


def shown(connection: Connection, found: Iterable[Instance]) -> dict[str, ShownRequest]:
    """Return instance uuid → the shown parts of its request; instances without a request are left out."""
    wanted = {instance.uuid: instance.request_spec_uuid for instance in found if instance.request_spec_uuid}
    uuids = list(dict.fromkeys(wanted.values()))
    requests: dict[str, ShownRequest] = {}
    for some in pieces(uuids):
        rows = _SHOWN.rows(connection, uuids=some)
        requests |= {uuid: _shown(text, user_data) for uuid, text, user_data in heeding(rows)}
    return {uuid: requests[name] for uuid, name in wanted.items() if name in requests}


def _shown(text: str, user_data: str | None) -> ShownRequest:
    body = _SHOWN_BODY.decode(text)
    properties = {} if body.image is None else body.image.properties
    return ShownRequest(body.availability_zone, properties, body.hints, body.group, user_data, body.trusted_certs)


def _request(uuid: str, body: dict[str, Any], user_data: str | None) -> StoredRequest:
    key, certs = body.get("key"), body.get("trusted_certs", ())
    public = None if key is None else PublicKey(**key)
    return StoredRequest(uuid, *from_json(body), user_data, public, tuple(certs), _disks(body.get("disks")))


def _disks(stored: Mapping[str, Any] | None) -> LocalDisks:
    if stored is None:
        return NO_LOCAL_DISKS
    ephemeral, swap = stored["ephemeral"], stored["swap"]
    return LocalDisks(tuple(EphemeralDisk(**disk) for disk in ephemeral), None if swap is None else SwapDisk(**swap))


def _body(request: StoredRequest) -> dict[str, Any]:
    body = as_json(request.spec, request.group_uuid)
    if request.key is not None:
        body["key"] = asdict(request.key)
    if request.trusted_certs:
        body["trusted_certs"] = request.trusted_certs
    if request.disks != NO_LOCAL_DISKS:
        body["disks"] = asdict(request.disks)
    return body


def change(tx: Transaction, instance_uuid: str, **changed: Any) -> None:
    """Change fields of the request of one instance; the requests of other instances stay unchanged.

    Does nothing for an instance without a request.
    """
    _replace(tx, instance_uuid, lambda stored: replace(stored, spec=replace(stored.spec, **changed)))


def leave_group(tx: Transaction, instance_uuid: str) -> None:
    """Remove the server group and its hint from the request of one instance; see :func:`change`."""

    def without_group(stored: StoredRequest) -> StoredRequest:
        hints = {name: values for name, values in stored.spec.hints.items() if name != "group"}
        return replace(stored, group_uuid=None, spec=replace(stored.spec, hints=hints))

    _replace(tx, instance_uuid, without_group)


def _replace(tx: Transaction, instance_uuid: str, made_of: Callable[[StoredRequest], StoredRequest]) -> None:
    table, column = t.instances, t.instances.c
    uuid = tx.execute(sa.select(column.request_spec_uuid).where(column.uuid == instance_uuid)).scalar_one_or_none()
    if uuid is None:
        return
    stored = get(tx.connection, uuid)
    after = replace(made_of(stored), uuid=new_uuid())
    others = sa.select(column.id).where(column.request_spec_uuid == uuid, column.uuid != instance_uuid).limit(1)
    if tx.execute(others).first() is None:
        tx.execute(sa.update(t.request_specs).where(t.request_specs.c.uuid == uuid).values(body=_body(after)))
        return
    insert(tx, [after])
    tx.execute(sa.update(table).where(column.uuid == instance_uuid).values(request_spec_uuid=after.uuid))


def delete_unused(tx: Transaction, uuids: Sequence[str]) -> int:
    """Delete the requests among ``uuids`` to which no instance refers, not even a deleted one; return their number."""
    used = sa.select(t.instances.c.id).where(t.instances.c.request_spec_uuid == t.request_specs.c.uuid)
    gone = 0
    for part in pieces(uuids):
        some = t.request_specs.c.uuid.in_(part)
        gone += tx.execute(sa.delete(t.request_specs).where(some, ~used.exists())).rowcount
    return gone


def placed(connection: Connection) -> Iterator[PlacedServer]:
    """Yield every server that has a host, with its present flavor and with its image as it was at creation.

    A server that is being moved is yielded once for each of its two hosts, with the flavor that it has on that host.
    """
    server = t.instances.c
    columns = (server.uuid, server.name, server.host, server.project_id, server.flavor, t.request_specs.c.body)
    joined = (
        sa.select(*columns)
        .outerjoin(t.request_specs, t.request_specs.c.uuid == server.request_spec_uuid)
        .where(server.deleted.is_(False), server.host.is_not(None))
        .order_by(server.id)
    )
    moving: dict[str, list[OtherSide]] = defaultdict(list)
    for side in server_migrations.other_sides(connection):
        moving[side.migration.instance_uuid].append(side)
    for row in heeding(connection.execute(joined)):
        image = None if row.body is None or row.body["image"] is None else Image(**row.body["image"])
        yield PlacedServer(row.uuid, row.name, row.host, row.project_id, flavors.from_json(row.flavor), image)
        for side in moving.get(row.uuid, ()):
            yield PlacedServer(row.uuid, row.name, side.host, row.project_id, side.flavor, image)


def as_json(spec: RequestSpec, group_uuid: str | None) -> dict[str, Any]:
    """Return a request as JSON data, without the resource query, which each decision computes again."""
    image = None if spec.image is None else {name: getattr(spec.image, name) for name in _IMAGE_FIELDS}
    if image is not None:
        image["properties"] = dict(image["properties"])
    return {
        **{name: getattr(spec, name) for name in _PLAIN},
        "flavor": flavors.as_json(spec.flavor),
        "image": image,
        "hints": {name: list(values) for name, values in spec.hints.items()},
        "move": None if spec.move is None else spec.move.value,
        "unseen_instances": sorted(spec.unseen_instances),
        "ignore_hosts": sorted(spec.ignore_hosts),
        "group": group_uuid,
        "networks": [_network_as_json(each) for each in spec.networks],
    }


def _network_as_json(network: RequestedNetwork) -> dict[str, Any]:
    """Return a requested network as JSON data, without attributes that have their default values."""
    given: dict[str, Any] = {
        "id": network.network_id,
        "vnic_type": network.vnic_type,
        "segments": [sorted(uuids) for uuids in network.segments],
    }
    if network.port_id:
        given["port"] = network.port_id
    if network.groups:
        given["groups"] = [
            {"id": group.suffix, "resources": dict(group.resources), "required": sorted(group.required)}
            for group in network.groups
        ]
    if network.same_subtree:
        given["same_subtree"] = sorted(network.same_subtree)
    plain = {"physical_network": None, "tunneled": False, "trusted": None, "numa_policy": None}
    return given | {name: value for name in plain if (value := getattr(network, name)) != plain[name]}


def _network_from_json(given: Mapping[str, Any]) -> RequestedNetwork:
    port_id = given.get("port", "")
    return RequestedNetwork(
        network_id=given["id"],
        vnic_type=given["vnic_type"],
        segments=tuple(map(frozenset, given["segments"])),
        port_id=port_id,
        groups=tuple(
            ResourceGroup(each["id"], each["resources"], frozenset(each["required"]), port_id=port_id)
            for each in given.get("groups", ())
        ),
        same_subtree=frozenset(given.get("same_subtree", ())),
        physical_network=given.get("physical_network"),
        tunneled=given.get("tunneled", False),
        trusted=given.get("trusted"),
        numa_policy=given.get("numa_policy"),
    )


def in_present_form(body: dict[str, Any]) -> dict[str, Any]:
    """Convert the body of a request, as stored by any release, to the form that this release stores."""
    key = {"key": body["key"]} if body.get("key") is not None else {}
    return {**as_json(*from_json(body)), **key}


def is_in_present_form(body: dict[str, Any]) -> bool:
    """Return whether the body of a request has all fields that this release stores."""
    image = body["image"]
    return body.keys() >= _STORED and (image is None or image.keys() >= set(_IMAGE_FIELDS))


def from_json(body: dict[str, Any]) -> tuple[RequestSpec, str | None]:
    """Parse the result of :func:`as_json` into a request spec and a group uuid."""
    image = body["image"]
    spec = RequestSpec(
        flavor=flavors.from_json(body["flavor"]),
        image=None if image is None else Image(**image),
        hints={name: tuple(values) for name, values in body["hints"].items()},
        move=None if body.get("move") is None else MoveKind(body["move"]),
        unseen_instances=frozenset(body.get("unseen_instances", ())),
        ignore_hosts=frozenset(body["ignore_hosts"]),
        networks=tuple(map(_network_from_json, body.get("networks", ()))),
        **{name: body[name] for name in _PLAIN if name in body},
    )
    return spec, body["group"]
