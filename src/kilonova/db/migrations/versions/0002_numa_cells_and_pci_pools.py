# SPDX-License-Identifier: Apache-2.0
"""Add tables of NUMA cells and PCI pools."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_OPTIONS: dict[str, Any] = {
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_nopad_bin",
    "mariadb_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_nopad_bin",
    "mysql_engine": "InnoDB",
}


def upgrade() -> None:
    op.create_table(
        "numa_cells",
        sa.Column("node_uuid", sa.String(length=36), nullable=False),
        sa.Column("cell", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("used", sa.JSON(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("node_uuid", "cell", name=op.f("pk_numa_cells")),
        **_OPTIONS,
    )
    op.create_table(
        "pci_pools",
        sa.Column("node_uuid", sa.String(length=36), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("node_uuid", "number", name=op.f("pk_pci_pools")),
        **_OPTIONS,
    )
    op.create_table(
        "device_shares",
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("node_uuid", sa.String(length=36), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("instance_uuid", name=op.f("pk_device_shares")),
        **_OPTIONS,
    )
    with op.batch_alter_table("device_shares", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_device_shares_node_uuid"), ["node_uuid"], unique=False)
