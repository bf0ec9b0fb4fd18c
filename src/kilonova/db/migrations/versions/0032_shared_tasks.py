# SPDX-License-Identifier: Apache-2.0
"""Add the periodic tasks that one control process runs for the whole cloud."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0032"
down_revision = "0031"

_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}


def upgrade() -> None:
    time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    op.create_table(
        "shared_tasks",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(36), nullable=True),
        sa.Column("seen_at", time, nullable=True),
        sa.Column("finished_at", time, nullable=True),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_shared_tasks")),
        **_OPTIONS,
    )
