# SPDX-License-Identifier: Apache-2.0
"""Add plans: saved plans of moves, which a control process applies."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0034"
down_revision = "0033"

_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}
_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "plans",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("stays", sa.JSON(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(36), nullable=True),
        sa.Column("replans", sa.Integer(), nullable=False),
        sa.Column("job_uuid", sa.String(36), nullable=True),
        sa.Column("message", sa.String(1000), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("started_at", _TIME, nullable=True),
        sa.Column("finished_at", _TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plans")),
        sa.UniqueConstraint("uuid", name=op.f("uq_plans_uuid")),
        **_OPTIONS,
    )
    op.create_index(op.f("ix_plans_state"), "plans", ["state"])
    op.create_table(
        "plan_moves",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column("plan_uuid", sa.String(36), nullable=False),
        sa.Column("wave", sa.Integer(), nullable=False),
        sa.Column("server_uuid", sa.String(36), nullable=False),
        sa.Column("server_name", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("source_host", sa.String(255), nullable=False),
        sa.Column("dest_host", sa.String(255), nullable=True),
        sa.Column("gib", sa.Double(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("migration_uuid", sa.String(36), nullable=True),
        sa.Column("request_id", sa.String(64), nullable=True),
        sa.Column("reason", sa.String(1000), nullable=True),
        sa.Column("started_at", _TIME, nullable=True),
        sa.Column("finished_at", _TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plan_moves")),
        **_OPTIONS,
    )
    op.create_index("ix_plan_moves_plan_uuid_state", "plan_moves", ["plan_uuid", "state"])
