# SPDX-License-Identifier: Apache-2.0
"""Add inputs of decisions and checkpoints of the mirror, so that a decision can be replayed."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0005"
down_revision = "0004"

_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}


def upgrade() -> None:
    time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    blob = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    with op.batch_alter_table("decisions") as batch:
        batch.add_column(sa.Column("circumstances_id", sa.String(36), nullable=True))
        batch.add_column(sa.Column("server_index", sa.Integer(), nullable=True))
        batch.create_index(batch.f("ix_decisions_circumstances_id"), ["circumstances_id"])
    op.create_table(
        "circumstances",
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("created_at", time, nullable=False),
        sa.Column("body", blob, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_circumstances")),
        **_OPTIONS,
    )
    op.create_table(
        "checkpoints",
        sa.Column("id", number, autoincrement=True, nullable=False),
        sa.Column("created_at", time, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_checkpoints")),
        sa.Index(op.f("ix_checkpoints_seq"), "seq"),
        **_OPTIONS,
    )
    op.create_table(
        "checkpoint_parts",
        sa.Column("checkpoint_id", number, nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("body", blob, nullable=False),
        sa.ForeignKeyConstraint(["checkpoint_id"], ["checkpoints.id"], name=op.f("fk_checkpoint_parts_checkpoint_id")),
        sa.PrimaryKeyConstraint("checkpoint_id", "part", name=op.f("pk_checkpoint_parts")),
        **_OPTIONS,
    )
