# SPDX-License-Identifier: Apache-2.0
"""Add instance actions with their events, and migrations of servers."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0008"
down_revision = "0007"

_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}


def upgrade() -> None:
    time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    long = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "instance_actions",
        sa.Column("id", number, autoincrement=True, nullable=False),
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.Column("action", sa.String(255), nullable=False),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("started_at", time, nullable=False),
        sa.Column("updated_at", time, nullable=True),
        sa.Column("finished_at", time, nullable=True),
        sa.Column("message", sa.String(255), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instance_actions")),
        sa.Index(op.f("ix_instance_actions_instance"), "instance_uuid", "request_id"),
        **_OPTIONS,
    )
    op.create_table(
        "instance_action_events",
        sa.Column("id", number, autoincrement=True, nullable=False),
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.Column("event", sa.String(255), nullable=False),
        sa.Column("started_at", time, nullable=False),
        sa.Column("finished_at", time, nullable=True),
        sa.Column("result", sa.String(16), nullable=True),
        sa.Column("host", sa.String(255), nullable=True),
        sa.Column("details", sa.String(255), nullable=True),
        sa.Column("traceback", long, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instance_action_events")),
        sa.Index(op.f("ix_instance_action_events_instance"), "instance_uuid", "request_id"),
        **_OPTIONS,
    )
    op.create_table(
        "server_migrations",
        sa.Column("id", number, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.Column("migration_type", sa.String(32), nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("source_host", sa.String(255), nullable=False),
        sa.Column("source_node", sa.String(255), nullable=False),
        sa.Column("dest_host", sa.String(255), nullable=True),
        sa.Column("dest_node", sa.String(255), nullable=True),
        sa.Column("old_flavor", sa.JSON(), nullable=False),
        sa.Column("new_flavor", sa.JSON(), nullable=False),
        sa.Column("request_id", sa.String(64), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=True),
        sa.Column("created_at", time, nullable=False),
        sa.Column("updated_at", time, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_server_migrations")),
        sa.UniqueConstraint("uuid", name=op.f("uq_server_migrations_uuid")),
        sa.Index(op.f("ix_server_migrations_instance_uuid"), "instance_uuid"),
        sa.Index(op.f("ix_server_migrations_status"), "status"),
        sa.Index(op.f("ix_server_migrations_hosts"), "source_host", "dest_host"),
        **_OPTIONS,
    )
