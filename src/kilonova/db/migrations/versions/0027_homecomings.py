# SPDX-License-Identifier: Apache-2.0
"""Add pending rollbacks: guests that a host must restore, because it could not be reached when a move was undone."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0027"
down_revision = "0026"

_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}


def upgrade() -> None:
    op.create_table(
        "homecomings",
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.Column("drops_made", sa.Boolean(), nullable=False),
        sa.Column("runs", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb"), nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_uuid"], ["instances.uuid"], name=op.f("fk_homecomings_instance_uuid_instances")
        ),
        sa.PrimaryKeyConstraint("host", "instance_uuid", name=op.f("pk_homecomings")),
        **_OPTIONS,
    )
    op.create_index(op.f("ix_homecomings_instance_uuid"), "homecomings", ["instance_uuid"])
