# SPDX-License-Identifier: Apache-2.0
"""Quota limits: functions that read, change and show them.

Limits come from the configuration, the database or an external source.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlalchemy.engine import Connection

from kilonova.api.http import Context, Reply
from kilonova.api.schemas.types import MAX_INTEGER
from kilonova.api.validation import invalid_field
from kilonova.db import quotas
from kilonova.db.core.transaction import Transaction
from kilonova.db.quotas import EVERYBODY
from kilonova.errors import InvalidRequest
from kilonova.model.quota import DEFAULT_CLASS, UNLIMITED, Limits

#: Function that reads limits from a database connection. The function for a project also accepts a user id:
#: it then returns the limits of this user in the project.
Reader = Callable[..., Limits]


def limits_of_project(ctx: Context, project_id: str) -> Reader:
    """Return a function that reads a project's limits from a database connection.

    An external source of limits is queried before the return, because the returned function may run in a transaction.
    """
    elsewhere = ctx.backend.limits.of_project(project_id)
    configured = ctx.backend.settings.quota.limits()

    def read(connection: Connection, user_id: str = EVERYBODY) -> Limits:
        return elsewhere or quotas.limits_of(connection, configured, project_id, user_id)

    return read


def limits_of_class(ctx: Context, class_name: str) -> Reader:
    """Return a function that reads the limits of a quota class from a database connection."""
    elsewhere = ctx.backend.limits.defaults()
    configured = ctx.backend.settings.quota.limits()

    def read(connection: Connection) -> Limits:
        return elsewhere or {**configured, **quotas.class_limits(connection, class_name)}

    return read


def default_limits(ctx: Context) -> Reader:
    """Return a function that reads the default limits, which apply to projects without limits of their own."""
    return limits_of_class(ctx, DEFAULT_CLASS)


def change_limits(
    ctx: Context, asked: Mapping[str, Any], limits: Reader, store: Callable[[Transaction, Limits], None]
) -> Limits:
    """Store ``asked``, the limits in a request body, and return the limits in force after the change.

    ``store`` checks and writes the new limits, and ``limits`` reads the result, both in one transaction.
    Raises: InvalidRequest, and errors of ``store``.
    """
    require_writable(ctx)
    changed = _read_limits(asked)

    def job(tx: Transaction) -> Limits:
        store(tx, changed)
        return limits(tx.connection)

    return ctx.write(job)


def limits_reply(name: str, resources: Iterable[str], content: Mapping[str, Any], **more: str) -> Reply:
    """Return a reply whose only key is ``name``. The value has the fields ``more``, and one field for each resource.

    ``content``: resource → its limit or usage.
    """
    return Reply(200, {name: {**more, **{resource: content[resource] for resource in resources}}})


def _read_limits(asked: Mapping[str, Any]) -> dict[str, int]:
    limits = {name: int(value) for name, value in asked.items()}
    for name, limit in limits.items():
        if not UNLIMITED <= limit <= MAX_INTEGER:  # the schema does not check the range of a number sent as a string
            message = f"Value: {limit}. The value must be from 0 to {MAX_INTEGER}, or -1 for no limit."
            raise invalid_field(name, message)
    return limits


def require_writable(ctx: Context) -> None:
    """Raise InvalidRequest if the limits come from an external source that the compute API cannot change."""
    if ctx.backend.limits.is_read_only:
        raise InvalidRequest("Limits are stored in Keystone: change them there, e.g. with `openstack limit set`.")


def require_id(text: str, name: str) -> str:
    """Return ``text`` if it has 1 to 255 printable characters. Raises: InvalidRequest naming the parameter ``name``."""
    if not text or len(text) > 255 or not text.isprintable():
        raise InvalidRequest(f"Invalid input received: {name} must be 1 to 255 printable characters.", field=name)
    return text
