# SPDX-License-Identifier: Apache-2.0
"""Guard rows of server groups, by which a claim enforces the group's policy.

Anti-affinity: ``server_group_hosts.members`` stays within the group's limit. Affinity: ``server_groups.host`` is the
only host of the members. With the soft policies, members are only counted. All writes log the group for the mirrors.
"""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import server_migrations
from kilonova.db.change_log.changes import LoggedGroup
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import ManyRows, insert_many, mapping
from kilonova.db.core.transaction import Transaction
from kilonova.errors import InvalidRequest

_H = t.server_group_hosts.c
_G = t.server_groups.c
_ANY_NUMBER = 2**31 - 1

_MEMBERS_ON = sa.select(_H.host, _H.members).where(_H.group_id == sa.bindparam("group_id"))
_RAISE = ManyRows(
    {"group_id": sa.BigInteger(), "host": _H.host.type, "members": sa.BigInteger(), "most": sa.BigInteger()},
    lambda given: (
        sa.update(t.server_group_hosts)
        .where(
            _H.group_id == given["group_id"],
            _H.host == given["host"],
            _H.members + given["members"] <= given["most"],
        )
        .values(members=_H.members + given["members"])
    ),
)
_FORGET_MEMBERS = Prepared(
    sa.delete(t.server_group_members).where(
        t.server_group_members.c.instance_uuid.in_(sa.bindparam("uuids", expanding=True))
    )
)
_OPEN = insert_many(t.server_group_hosts, {"group_id": "group_id", "host": "host", "members": "members"})


def add_members(tx: Transaction, group_uuid: str, instance_uuids: Sequence[str]) -> None:
    """Make new instances members of a group; an instance is counted on a host only after its claim of that host.

    Raises: InvalidRequest if the group does not exist.
    """
    group_id = tx.execute(sa.select(_G.id).where(_G.uuid == group_uuid)).scalar()
    if group_id is None:
        raise InvalidRequest(f"Instance group {group_uuid} could not be found.")
    rows = [{"group_id": group_id, "instance_uuid": uuid} for uuid in instance_uuids]
    tx.execute(sa.insert(t.server_group_members), rows)


def forget_members(tx: Transaction, instance_uuids: Sequence[str]) -> None:
    """Remove instances from their groups, because the instances are being deleted; no error if they are in no group."""
    if instance_uuids:
        _FORGET_MEMBERS.run(tx.connection, uuids=list(instance_uuids))


def join_hosts(
    tx: Transaction, group_uuid: str, hosts: Mapping[str, int], leaving: Mapping[str, int] | None = None
) -> bool:
    """Count members on new hosts.

    Returns False if the group's policy forbids one of the hosts; the caller must then roll back.

    ``hosts``: new host → number of members. ``leaving``: host → number of these members that are moving away from that
    host; until :func:`leave` they are counted on both hosts. With the affinity policy, all other members must be on the
    new host; if there are no others, the new host becomes that of the group.
    """
    group = tx.execute(sa.select(t.server_groups).where(_G.uuid == group_uuid)).first()
    if group is None:
        return True  # a deleted group has no policy
    present: dict[str, int] = mapping(tx.connection, _MEMBERS_ON, group_id=group.id)
    if group.policy == "affinity":
        if len(hosts) != 1:
            return False
        (host,) = hosts
        if group.host not in {None, host} and _others_elsewhere(present, host, leaving or {}):
            return False
        tx.execute(sa.update(t.server_groups).where(_G.id == group.id).values(host=host))
    limit = group.max_server_per_host if group.policy == "anti-affinity" else None
    rows = [
        {"group_id": group.id, "host": host, "members": members, "most": _ANY_NUMBER if limit is None else limit}
        for host, members in sorted(hosts.items())
    ]
    more, new = [row for row in rows if row["host"] in present], [row for row in rows if row["host"] not in present]
    if _RAISE.run(tx, more) != len(more) or any(row["members"] > row["most"] for row in new):
        return False
    _OPEN.run(tx, new)
    log(tx, group_uuid)
    return True


def _others_elsewhere(present: Mapping[str, int], host: str, leaving: Mapping[str, int]) -> bool:
    return any(members > leaving.get(name, 0) for name, members in present.items() if name != host)


def leave(tx: Transaction, group_uuid: str, host: str) -> None:
    """Subtract one from the number of a group's members on a host; no error if the group does not exist."""
    group = tx.execute(sa.select(t.server_groups).where(_G.uuid == group_uuid)).first()
    if group is None:
        return
    row = sa.and_(_H.group_id == group.id, _H.host == host)
    tx.execute(sa.update(t.server_group_hosts).where(row, _H.members > 0).values(members=_H.members - 1))
    tx.execute(sa.delete(t.server_group_hosts).where(row, _H.members == 0))
    held = host_of(group.policy, mapping(tx.connection, _MEMBERS_ON, group_id=group.id), group.host)
    if held != group.host:
        tx.execute(sa.update(t.server_groups).where(_G.id == group.id).values(host=held))
    log(tx, group_uuid)


def counted(connection: Connection, group_uuid: str | None = None) -> dict[str, dict[str, int]]:
    """Count members by the hosts of their instances: group uuid → host → number, for one group or for all groups.

    A member that is moving to another host is counted on both hosts.
    """
    instance = t.instances.c
    statement = sa.select(instance.group_uuid, instance.host, sa.func.count()).where(
        instance.deleted.is_(False), instance.host.is_not(None), instance.group_uuid.is_not(None)
    )
    if group_uuid is not None:
        statement = statement.where(instance.group_uuid == group_uuid)
    found: dict[str, dict[str, int]] = {}
    for uuid, host, members in connection.execute(statement.group_by(instance.group_uuid, instance.host)):
        found.setdefault(uuid, {})[host] = members
    for side in server_migrations.other_sides(connection):
        if side.group_uuid is not None and group_uuid in {None, side.group_uuid} and side.migration.changes_host:
            hosts = found.setdefault(side.group_uuid, {})
            hosts[side.host] = hosts.get(side.host, 0) + 1
    return found


def host_of(policy: str, members: Mapping[str, int], present: str | None) -> str | None:
    """Return the host of an affinity group: ``present`` if members are there, otherwise the host with most members.

    None if the policy is not affinity, or if no member is on a host.
    """
    if policy != "affinity" or not members:
        return None
    return present if present in members else max(sorted(members), key=lambda host: members[host])


def recount(tx: Transaction, group_uuid: str) -> None:
    """Recompute the guard rows of a group from its members' hosts."""
    group = tx.execute(sa.select(t.server_groups).where(_G.uuid == group_uuid)).first()
    if group is None:
        return
    members = counted(tx.connection, group_uuid).get(group_uuid, {})
    tx.execute(sa.delete(t.server_group_hosts).where(_H.group_id == group.id))
    rows = [{"group_id": group.id, "host": host, "members": count} for host, count in sorted(members.items())]
    if rows:
        tx.execute(sa.insert(t.server_group_hosts), rows)
    held = host_of(group.policy, members, group.host)
    tx.execute(sa.update(t.server_groups).where(_G.id == group.id).values(host=held))
    log(tx, group_uuid)


def log(tx: Transaction, group_uuid: str) -> None:
    """Log the group with the number of members per host, for the mirrors."""
    group = tx.execute(sa.select(t.server_groups).where(_G.uuid == group_uuid)).first()
    if group is None:
        tx.log("group", group_uuid, None)
        return
    rows = tx.execute(sa.select(_H.host, _H.members).where(_H.group_id == group.id)).all()
    hosts = {row.host: row.members for row in rows if row.members}
    tx.log("group", group_uuid, LoggedGroup(group.policy, group.max_server_per_host, group.host, hosts))
