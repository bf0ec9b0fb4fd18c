# SPDX-License-Identifier: Apache-2.0
"""Add a table with the progress of the usage audit of each period."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0023"
down_revision = "0019"

_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}


def upgrade() -> None:
    time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    op.create_table(
        "usage_audits",
        sa.Column("period_beginning", time, nullable=False),
        sa.Column("period_ending", time, nullable=False),
        sa.Column("after_id", sa.Integer(), nullable=False),
        sa.Column("servers", sa.Integer(), nullable=False),
        sa.Column("finished_at", time, nullable=True),
        sa.PrimaryKeyConstraint("period_beginning", "period_ending", name=op.f("pk_usage_audits")),
        **_OPTIONS,
    )
