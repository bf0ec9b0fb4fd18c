# SPDX-License-Identifier: Apache-2.0
"""Add the networks of servers: requests, cached interfaces, addresses, and received events of the network service."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0030"
down_revision = "0029"

_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}


def upgrade() -> None:
    time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    op.create_table(
        "instance_networks",
        _instance(),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("info", sa.JSON(), nullable=False),
        sa.Column("updated_at", time, nullable=False),
        *_keys("instance_networks", "instance_uuid"),
        **_OPTIONS,
    )
    op.create_index(op.f("ix_instance_networks_updated_at"), "instance_networks", ["updated_at"])
    op.create_table(
        "instance_addresses",
        _instance(),
        sa.Column("address", sa.String(45), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        *_keys("instance_addresses", "instance_uuid", "address"),
        **_OPTIONS,
    )
    op.create_index(op.f("ix_instance_addresses_address"), "instance_addresses", ["address"])
    op.create_table(
        "network_events",
        _instance(),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("tag", sa.String(255), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("received_at", time, nullable=False),
        *_keys("network_events", "instance_uuid", "name", "tag"),
        **_OPTIONS,
    )


def _instance() -> sa.Column[Any]:
    return sa.Column("instance_uuid", sa.String(36), nullable=False)


def _keys(table: str, *primary: str) -> tuple[Any, ...]:
    name = op.f(f"fk_{table}_instance_uuid_instances")
    return (
        sa.ForeignKeyConstraint(["instance_uuid"], ["instances.uuid"], name=name),
        sa.PrimaryKeyConstraint(*primary, name=op.f(f"pk_{table}")),
    )
