# SPDX-License-Identifier: Apache-2.0
"""Add tables for reports of guests: pending removals and stray guests."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0012"
down_revision = "0010"

_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}


def upgrade() -> None:
    time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    op.create_table(
        "departures",
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.Column("departure", sa.String(16), nullable=False),
        sa.Column("created_at", time, nullable=False),
        sa.PrimaryKeyConstraint("host", "instance_uuid", name=op.f("pk_departures")),
        sa.Index(op.f("ix_departures_instance_uuid"), "instance_uuid"),
        **_OPTIONS,
    )
    op.create_table(
        "odd_guests",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.Column("oddity", sa.String(16), nullable=False),
        sa.Column("power_state", sa.Integer(), nullable=False),
        sa.Column("recorded_host", sa.String(255), nullable=True),
        sa.Column("created_at", time, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_odd_guests")),
        sa.UniqueConstraint("host", "instance_uuid", name=op.f("uq_odd_guests_host_instance_uuid")),
        **_OPTIONS,
    )
