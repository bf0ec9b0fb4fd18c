# SPDX-License-Identifier: Apache-2.0
"""Add the agent processes that may connect through the broker, and their hosts."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0013"
down_revision = "0009"

_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}
_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    op.create_table(
        "enrolled_agents",
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("revoked_at", _TIME, nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_enrolled_agents")),
        **_OPTIONS,
    )
    op.create_index(op.f("ix_enrolled_agents_version"), "enrolled_agents", ["version"])
    op.create_table(
        "enrolled_hosts",
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("agent", sa.String(128), nullable=False),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_enrolled_hosts")),
        sa.ForeignKeyConstraint(["agent"], ["enrolled_agents.name"], name=op.f("fk_enrolled_hosts_agent")),
        **_OPTIONS,
    )
    op.create_index(op.f("ix_enrolled_hosts_agent"), "enrolled_hosts", ["agent"])
