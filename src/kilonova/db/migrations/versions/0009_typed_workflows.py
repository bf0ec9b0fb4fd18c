# SPDX-License-Identifier: Apache-2.0
"""Add typed facts, failures and interrupts to the journal of workflows; running workflows are converted."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_TOGETHER = 500
#: Kind of workflow → keys of its former body that become facts.
_FACTS: dict[str, tuple[str, ...]] = {
    "build": ("tried", "last_error", "host", "node", "provider"),
    "delete": (),
    "batch": ("request", "after"),
}
_POWER = ("host",)


def upgrade() -> None:
    for column in (
        sa.Column("version", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("undoing", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("failure", sa.JSON(), nullable=True),
        sa.Column("interrupt", sa.String(32), nullable=True),
        sa.Column("tries", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("stuck", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("waiting", sa.Boolean(), nullable=False, server_default=sa.false()),
    ):
        op.add_column("workflows", column)
    op.execute("ALTER TABLE workflows RENAME COLUMN body TO facts")
    _convert(op.get_bind())


def _convert(connection: sa.Connection) -> None:
    table = sa.table(
        "workflows",
        *(sa.column(name) for name in ("uuid", "kind", "step", "undoing")),
        sa.column("facts", sa.JSON()),
        sa.column("failure", sa.JSON(none_as_null=True)),
    )
    last = ""
    while True:
        page = sa.select(table).where(table.c.uuid > last).order_by(table.c.uuid).limit(_TOGETHER)
        rows = connection.execute(page).all()
        if not rows:
            return
        last = rows[-1].uuid
        for row in rows:
            connection.execute(sa.update(table).where(table.c.uuid == row.uuid).values(_converted(row)))


def _converted(row: Any) -> dict[str, Any]:
    body = row.facts
    facts = {name: body[name] for name in _FACTS.get(row.kind, _POWER) if body.get(name) is not None}
    failure: dict[str, Any] | None = None
    gives_up = row.kind == "batch" and row.step == "give up"
    if gives_up:
        failure = {"message": body["message"], "details": body["details"]}
    elif body.get("undoing"):
        failure = {
            "message": body["error"],
            "details": body.get("details", ""),
            "fault_of": body.get("fault_of", "host"),
            "host": body.get("host"),
        }
    return {
        "facts": {"version": 1, **facts},
        "undoing": failure is not None,
        "failure": failure,
        "step": "claim" if gives_up else row.step,
    }
