# SPDX-License-Identifier: Apache-2.0
"""Store one request spec, with user data, for all servers of a request; one lease for all workflows of a process."""

import uuid
from collections.abc import Iterator
from typing import Any

import orjson
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0006"
down_revision = "0005"

_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}
_TOGETHER = 100

_instances = sa.table(
    "instances",
    *(sa.column(name) for name in ("id", "uuid", "project_id", "user_id", "reservation_id", "user_data", "group_uuid")),
    sa.column("flavor", sa.JSON()),
    sa.column("request_spec_uuid"),
)
_before = sa.table(
    "request_specs_before", *map(sa.column, ("instance_uuid", "request_id")), sa.column("body", sa.JSON())
)
_specs = sa.table("request_specs", *map(sa.column, ("uuid", "request_id", "user_data")), sa.column("body", sa.JSON()))


def upgrade() -> None:
    op.rename_table("request_specs", "request_specs_before")
    if op.get_context().dialect.name == "postgresql":  # names of constraints are unique per schema
        op.execute("ALTER TABLE request_specs_before RENAME CONSTRAINT pk_request_specs TO pk_request_specs_before")
    op.create_table(
        "request_specs",
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.Column("user_data", sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb"), nullable=True),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_request_specs")),
        **_OPTIONS,
    )
    op.add_column("instances", sa.Column("request_spec_uuid", sa.String(36), nullable=True))
    _share()
    op.create_index(op.f("ix_instances_request_spec_uuid"), "instances", ["request_spec_uuid"])
    op.drop_table("request_specs_before")
    op.drop_column("instances", "user_data")
    op.drop_index(op.f("ix_workflows_lease_until"), "workflows")
    op.drop_column("workflows", "lease_until")
    op.add_column("workflows", sa.Column("batch_uuid", sa.String(36), nullable=True))
    op.create_index(op.f("ix_workflows_batch_uuid"), "workflows", ["batch_uuid"])


def _share() -> None:
    """Store equal request specs of the servers of a reservation only once."""
    connection = op.get_bind()
    reservation: str | None = None
    known: dict[bytes, str] = {}
    for rows in _servers(connection):
        new: list[dict[str, Any]] = []
        shared: list[dict[str, Any]] = []
        for row in rows:
            if row.reservation_id != reservation:
                reservation, known = row.reservation_id, {}
            if row.body is None and row.user_data is None:
                continue  # the server has no request spec
            stored = {"request_id": row.request_id or "", "user_data": row.user_data, "body": row.body or _asked(row)}
            key = orjson.dumps(stored, option=orjson.OPT_SORT_KEYS)
            if key not in known:
                known[key] = str(uuid.uuid4())
                new.append({"uuid": known[key], **stored})
            shared.append({"number": row.id, "spec": known[key]})
        if new:
            connection.execute(sa.insert(_specs), new)
        if shared:
            one = sa.update(_instances).where(_instances.c.id == sa.bindparam("number"))
            connection.execute(one.values(request_spec_uuid=sa.bindparam("spec")), shared)


def _servers(connection: sa.Connection) -> Iterator[list[Any]]:
    """Yield all servers in pages, ordered by reservation."""
    server = _instances.c
    statement = (
        sa.select(_instances, _before.c.request_id, _before.c.body)
        .outerjoin(_before, _before.c.instance_uuid == server.uuid)
        .order_by(server.reservation_id, server.id)
        .limit(_TOGETHER)
    )
    last: Any = None
    while True:
        after = statement
        if last is not None:
            later = sa.and_(server.reservation_id == last.reservation_id, server.id > last.id)
            after = statement.where(sa.or_(server.reservation_id > last.reservation_id, later))
        rows = list(connection.execute(after))
        if not rows:
            return
        yield rows
        last = rows[-1]


def _asked(row: Any) -> dict[str, Any]:
    """Return a request spec built from the columns of a server that has none."""
    known = {"project_id": row.project_id, "user_id": row.user_id, "flavor": row.flavor, "group": row.group_uuid}
    return {**known, "image": None, "hints": {}, "ignore_hosts": [], "networks": []}
