# SPDX-License-Identifier: Apache-2.0
"""Quotas: limits of projects, users and quota classes, and the usage that counts against them.

There is one row for each project, which counts all servers of the project, and one for each user who has separate
limits in a project. Creating and deleting servers changes these rows in the same transaction. Only one transaction
writes at a time (ADR 6), so a value that :func:`take` reads for a batch of requests stays valid; its UPDATE also checks
each limit as a guard (ADR 11).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import flavors, server_migrations
from kilonova.db.core import tables as t
from kilonova.db.core.prepared import Prepared
from kilonova.db.core.statements import ManyRows, insert_missing, pieces
from kilonova.db.core.transaction import Transaction
from kilonova.errors import ConcurrentUpdate, OverQuota
from kilonova.model.instance import TaskState, VmState
from kilonova.model.quota import (
    COUNTED,
    DEFAULT_CLASS,
    Limits,
    NestedLimits,
    QuotaRequest,
    QuotaTree,
    Usage,
    room_for,
    shortage,
)
from kilonova.model.server_migration import MigrationType
from kilonova.records import dataclass

#: User id in the row of a whole project.
EVERYBODY = ""
_Q = t.quotas.c
_C = t.quota_classes.c
_I = t.instances.c
_ANY_AMOUNT = 2**62

_CLASS = sa.select(_C.limits).where(_C.class_name == sa.bindparam("class_name"))
_DEFAULTS = sa.select(_C.limits).where(_C.class_name == DEFAULT_CLASS).scalar_subquery()
_ROWS = Prepared(
    sa.select(_Q.project_id, _Q.user_id, _Q.instances, _Q.cores, _Q.ram, _Q.limits, _DEFAULTS.label("defaults")).where(
        _Q.project_id.in_(sa.bindparam("projects", expanding=True)),
        _Q.user_id.in_(sa.bindparam("users", expanding=True)),
    )
)
_INSERT = sa.insert(t.quotas)
_GIVE_BACK = Prepared(
    sa.update(t.quotas)
    .where(_Q.project_id == sa.bindparam("project"), _Q.user_id.in_([EVERYBODY, sa.bindparam("user")]))
    .values({name: _Q[name] - sa.bindparam(f"less_{name}") for name in COUNTED})
)
_KEY = {"project_id": _Q.project_id.type, "user_id": _Q.user_id.type}
_RAISE = ManyRows(
    {**_KEY, **{f"{prefix}_{name}": sa.BigInteger() for name in COUNTED for prefix in ("more", "most")}},
    lambda given: (
        sa.update(t.quotas)
        .where(
            _Q.project_id == given["project_id"],
            _Q.user_id == given["user_id"],
            *(_Q[name] + given[f"more_{name}"] <= given[f"most_{name}"] for name in COUNTED),
        )
        .values({name: _Q[name] + given[f"more_{name}"] for name in COUNTED})
    ),
)
_RESIZES = server_migrations.IS_OPEN, t.server_migrations.c.migration_type == MigrationType.RESIZE.value
#: Conditions for servers that are counted: servers that exist; a soft-deleted server only while it is being restored.
_COUNTS = (
    _I.deleted.is_(False),
    sa.or_(_I.vm_state != VmState.SOFT_DELETED.value, _I.task_state == TaskState.RESTORING.value),
)
_AMOUNTS = (
    sa.func.count(),
    sa.func.sum(_I.flavor["vcpus"].as_integer()),
    sa.func.sum(_I.flavor["memory_mib"].as_integer()),
)
_MEMBERS = (
    sa.select(sa.func.count())
    .select_from(t.server_group_members)
    .join(t.server_groups, t.server_groups.c.id == t.server_group_members.c.group_id)
    .join(t.instances, _I.uuid == t.server_group_members.c.instance_uuid)
    .where(
        t.server_groups.c.uuid == sa.bindparam("group_uuid"),
        _I.user_id == sa.bindparam("user_id"),
        _I.deleted.is_(False),
    )
)


# --- limits -----------------------------------------------------------------------------------------------------------


def class_limits(connection: Connection, class_name: str) -> dict[str, int]:
    """Return the limits that were set for a quota class."""
    return dict(connection.execute(_CLASS, {"class_name": class_name}).scalar() or {})


def own_limits(connection: Connection, project_id: str, user_id: str = EVERYBODY) -> dict[str, int]:
    """Return the limits that were set for a project, or for a user in it."""
    wanted = sa.select(_Q.limits).where(_Q.project_id == project_id, _Q.user_id == user_id)
    return dict(connection.execute(wanted).scalar() or {})


def limits_of(connection: Connection, configured: Limits, project_id: str, user_id: str = EVERYBODY) -> dict[str, int]:
    """Return the limits in force for a project, or for a user in it. ``configured``: limits of the configuration."""
    default, project = class_limits(connection, DEFAULT_CLASS), own_limits(connection, project_id)
    user = own_limits(connection, project_id, user_id) if user_id != EVERYBODY else {}
    return {**configured, **default, **project, **user}


def limits_of_users(connection: Connection, project_id: str) -> dict[str, dict[str, int]]:
    """Return user → limits, for each user who has separate limits in a project."""
    wanted = sa.select(_Q.user_id, _Q.limits).where(_Q.project_id == project_id, _Q.user_id != EVERYBODY)
    return {row.user_id: dict(row.limits) for row in connection.execute(wanted)}


def set_class_limits(tx: Transaction, class_name: str, changed: Limits) -> None:
    """Set limits of a quota class and keep its other limits."""
    limits = {**class_limits(tx.connection, class_name), **changed}
    if not insert_missing(tx, t.quota_classes, {"class_name": class_name, "limits": limits}):
        tx.execute(sa.update(t.quota_classes).where(_C.class_name == class_name).values(limits=limits))


def set_limits(tx: Transaction, project_id: str, user_id: str, changed: Limits) -> None:
    """Set limits of a project, or of a user in it. The row of a new user starts with the usage of that user's servers.

    Limits that are not in ``changed`` stay unchanged.
    """
    limits = {**own_limits(tx.connection, project_id, user_id), **changed}
    key = {"project_id": project_id, "user_id": user_id}
    used = usage_of(tx.connection, project_id, user_id)
    if not insert_missing(tx, t.quotas, {**key, **dict(used.items()), "limits": limits}):
        tx.execute(sa.update(t.quotas).where(*_is(project_id, user_id)).values(limits=limits))


def delete_limits(tx: Transaction, project_id: str, user_id: str = EVERYBODY) -> None:
    """Delete the limits of a user, or of a project and all of its users; no error if absent."""
    users = sa.and_(_Q.project_id == project_id, _Q.user_id != EVERYBODY)
    if user_id != EVERYBODY:
        users = sa.and_(users, _Q.user_id == user_id)
    tx.execute(sa.delete(t.quotas).where(users))
    if user_id == EVERYBODY:
        tx.execute(sa.update(t.quotas).where(*_is(project_id, EVERYBODY)).values(limits={}))


# --- usage ------------------------------------------------------------------------------------------------------------


def usage_of(connection: Connection, project_id: str, user_id: str = EVERYBODY) -> Usage:
    """Return the stored usage of a project, or of a user in it."""
    wanted = sa.select(*(_Q[name] for name in COUNTED)).where(*_is(project_id, user_id))
    row = connection.execute(wanted).first()
    if row is not None:
        return Usage(*row)
    return Usage() if user_id == EVERYBODY else counted(connection, project_id, user_id)


def usage_of_projects(connection: Connection, projects: Collection[str]) -> Usage:
    """Return the stored usage of several projects together."""
    found, names = Usage(), sorted(projects)
    sums = [sa.func.coalesce(sa.func.sum(_Q[name]), 0) for name in COUNTED]
    for part in pieces(names):
        some = _Q.project_id.in_(part)
        found += Usage(*map(int, connection.execute(sa.select(*sums).where(some, _Q.user_id == EVERYBODY)).one()))
    return found


def counted(connection: Connection, project_id: str, user_id: str = EVERYBODY) -> Usage:
    """Compute the usage of a project, or of a user in it, from its servers."""
    mine = sa.select(*_AMOUNTS).where(*_COUNTS, _I.project_id == project_id)
    if user_id != EVERYBODY:
        mine = mine.where(_I.user_id == user_id)
    instances, cores, ram = connection.execute(mine).one()
    sum_of_all = Usage(instances, int(cores or 0), int(ram or 0))
    for owner, more in _counted_while_resized(connection):
        if owner[0] == project_id and user_id in {EVERYBODY, owner[1]}:
            sum_of_all += more
    return sum_of_all


def counted_everywhere(connection: Connection) -> dict[tuple[str, str], Usage]:
    """Compute (project, user) → usage from all servers, with :data:`EVERYBODY` as user for a whole project."""
    sums: dict[tuple[str, str], Usage] = {}
    by_user = sa.select(_I.project_id, _I.user_id, *_AMOUNTS).where(*_COUNTS).group_by(_I.project_id, _I.user_id)
    for project_id, user_id, instances, cores, ram in connection.execute(by_user):
        usage = sums[project_id, user_id] = Usage(instances, int(cores), int(ram))
        sums[project_id, EVERYBODY] = sums.get((project_id, EVERYBODY), Usage()) + usage
    for (project_id, user_id), more in _counted_while_resized(connection):
        for name in (user_id, EVERYBODY):
            sums[project_id, name] = sums.get((project_id, name), Usage()) + more
    return sums


def _counted_while_resized(connection: Connection) -> Iterator[tuple[tuple[str, str], Usage]]:
    """For each server that is being resized, yield (project, user) and the usage in excess of its present flavor."""
    wanted = sa.select(t.server_migrations.c.uuid, _I.project_id, _I.user_id, _I.flavor)
    joined = wanted.join_from(t.instances, t.server_migrations, t.server_migrations.c.instance_uuid == _I.uuid)
    for uuid, project_id, user_id, flavor in connection.execute(joined.where(*_COUNTS, *_RESIZES)):
        both = server_migrations.get(connection, uuid).largest
        more = both.beyond(Usage.of(flavors.from_json(flavor)))
        if more != Usage():
            yield (project_id, user_id), more


def stored(connection: Connection) -> dict[tuple[str, str], Usage]:
    """Return (project, user) → usage, from all rows."""
    columns = (_Q.project_id, _Q.user_id, *(_Q[name] for name in COUNTED))
    return {(row[0], row[1]): Usage(*row[2:]) for row in connection.execute(sa.select(*columns))}


def recount(tx: Transaction, project_id: str, user_id: str = EVERYBODY) -> None:
    """Store the usage of a project, or of a user in it, as computed from its servers."""
    used = dict(counted(tx.connection, project_id, user_id).items())
    key = {"project_id": project_id, "user_id": user_id}
    if not insert_missing(tx, t.quotas, {**key, **used, "limits": {}}):
        tx.execute(sa.update(t.quotas).where(*_is(project_id, user_id)).values(used))


def give_back(tx: Transaction, project_id: str, user_id: str, less: Usage) -> None:
    """Subtract the usage of deleted servers from the usage of a project and user."""
    _GIVE_BACK.run(tx.connection, project=project_id, user=user_id, **{f"less_{k}": v for k, v in less.items()})


def count_again(tx: Transaction, project_id: str, user_id: str, more: Usage) -> None:
    """Add the usage of servers that were temporarily not counted, without a check of limits."""
    _GIVE_BACK.run(tx.connection, project=project_id, user=user_id, **{f"less_{k}": -v for k, v in more.items()})


def counts(vm_state: str, task_state: str | None) -> bool:
    """Return whether quotas count a server with these states; the server must not be deleted."""
    return vm_state != VmState.SOFT_DELETED.value or task_state == TaskState.RESTORING.value


# --- new servers ------------------------------------------------------------------------------------------------------


def take(tx: Transaction, requests: Sequence[QuotaRequest], configured: Limits) -> list[int | OverQuota]:
    """Count new servers against quotas. Returns the granted number of servers for each request.

    The result for a request is an OverQuota instead if quotas do not allow the minimum number of the request.

    ``configured``: limits of the configuration, which limits in the database override. Raises: ConcurrentUpdate if
    another transaction has changed a row since it was read.
    """
    ledger = _Ledger(tx.connection, configured)
    ledger.read(requests)
    granted = [ledger.grant(request) for request in requests]
    ledger.write(tx)
    return granted


def room(connection: Connection, request: QuotaRequest, configured: Limits) -> int:
    """Return how many servers :func:`take` would count now. Raises: OverQuota."""
    ledger = _Ledger(connection, configured)
    ledger.read([request])
    granted = ledger.grant(request)
    if isinstance(granted, OverQuota):
        raise granted
    return granted


@dataclass(slots=True)
class _Account:
    """A quota row within one transaction.

    ``taken``: usage added so far. ``under``: the limits that must hold for the row.
    """

    used: Usage
    limits: Limits
    is_new: bool = False
    taken: Usage = field(default_factory=Usage)
    under: Limits = field(default_factory=dict)


class _Ledger:
    """The quota rows that the requests of one transaction change."""

    def __init__(self, connection: Connection, configured: Limits) -> None:
        self._connection = connection
        self._defaults: Limits = configured
        self._accounts: dict[tuple[str, str], _Account] = {}
        self._members: dict[tuple[str, str], int] = {}
        #: Name of a tree → usage of its projects before this transaction.
        self._used_by_trees: dict[str, Usage] = {}

    def read(self, requests: Sequence[QuotaRequest]) -> None:
        projects = {request.project_id for request in requests}
        users = {EVERYBODY, *(request.user_id for request in requests)}
        rows = _ROWS.rows(self._connection, projects=sorted(projects), users=sorted(users))
        defaults = None
        for project_id, user_id, instances, cores, ram, limits, defaults in rows:  # noqa: B007 - the same in all rows
            self._accounts[project_id, user_id] = _Account(Usage(instances, cores, ram), limits)
        known = {project_id for project_id, user_id in self._accounts if user_id == EVERYBODY}
        default = defaults if rows else class_limits(self._connection, DEFAULT_CLASS)
        self._defaults = {**self._defaults, **(default or {})}
        for project_id in projects - known:
            self._accounts[project_id, EVERYBODY] = _Account(Usage(), {}, is_new=True)

    def grant(self, request: QuotaRequest) -> int | OverQuota:
        """Count as many servers of a request as the limits allow; none if these are fewer than its minimum."""
        project = self._accounts[request.project_id, EVERYBODY]
        own = self._accounts.get((request.project_id, request.user_id)) if request.user_id != EVERYBODY else None
        limits = request.limits or {**self._defaults, **project.limits}
        accounts = [(project, limits)]
        if own is not None:
            limits = request.limits or {**limits, **own.limits}
            accounts.append((own, limits))
        if 0 <= limits["metadata_items"] < request.metadata_items:
            return OverQuota(f"Maximum number of metadata items exceeds {limits['metadata_items']}")
        count = request.at_most
        for account, ceiling in accounts:
            used = account.used + account.taken
            count = room_for(request.each, used, ceiling, count)
            if count < request.at_least:
                return OverQuota(shortage(request.each, request.at_least, used, ceiling))
        if isinstance(request.limits, NestedLimits):
            tree = request.limits.tree
            used = self._used_by(tree)
            count = room_for(request.each, used, tree.limits, count)
            if count < request.at_least:
                return OverQuota(f"{shortage(request.each, request.at_least, used, tree.limits)} of {tree.name}")
        if request.group_uuid is not None and not self._join(request, request.group_uuid, count, limits):
            return OverQuota("Quota exceeded, too many servers in group")
        for account, ceiling in accounts:
            account.taken += request.each * count
            account.under = ceiling
        return count

    def _used_by(self, tree: QuotaTree) -> Usage:
        """Return the usage of all projects of a tree, including what this transaction has granted.

        Only one transaction writes at a time, so no other one can add to this usage before the commit.
        """
        if tree.name not in self._used_by_trees:
            self._used_by_trees[tree.name] = usage_of_projects(self._connection, tree.projects)
        accounts = self._accounts.items()
        mine = (each.taken for (project, user), each in accounts if user == EVERYBODY and project in tree.projects)
        return sum(mine, self._used_by_trees[tree.name])

    def _join(self, request: QuotaRequest, group_uuid: str, count: int, limits: Limits) -> bool:
        """Count new members of a server group, unless they exceed the limit of members per group and user."""
        limit, key = limits["server_group_members"], (group_uuid, request.user_id)
        if limit < 0:
            return True
        if key not in self._members:
            wanted = {"group_uuid": group_uuid, "user_id": request.user_id}
            self._members[key] = self._connection.execute(_MEMBERS, wanted).scalar_one()
        if self._members[key] + count > limit:
            return False
        self._members[key] += count
        return True

    def write(self, tx: Transaction) -> None:
        taken = [(key, account) for key, account in sorted(self._accounts.items()) if account.taken != Usage()]
        new = [{**_key(key), **dict(account.taken.items()), "limits": {}} for key, account in taken if account.is_new]
        if new:
            tx.execute(_INSERT, new)
        more = [_raised(key, account) for key, account in taken if not account.is_new]
        if _RAISE.run(tx, more) != len(more):
            raise ConcurrentUpdate("Another transaction changed the quota usage.")


def _raised(key: tuple[str, str], account: _Account) -> Mapping[str, Any]:
    most = {name: limit if limit >= 0 else _ANY_AMOUNT for name, limit in account.under.items() if name in COUNTED}
    row = {f"more_{name}": amount for name, amount in account.taken.items()}
    return {**_key(key), **row, **{f"most_{name}": limit for name, limit in most.items()}}


def _key(key: tuple[str, str]) -> dict[str, str]:
    return {"project_id": key[0], "user_id": key[1]}


def _is(project_id: str, user_id: str) -> Iterable[sa.ColumnElement[bool]]:
    return _Q.project_id == project_id, _Q.user_id == user_id
