# SPDX-License-Identifier: Apache-2.0
"""Add the table of keys that sign tickets for image data.

The new table is empty. A control process creates the first key when it starts.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0014"
down_revision = "0012"

_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}


def upgrade() -> None:
    op.create_table(
        "ticket_keys",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("secret", sa.String(64), nullable=False),
        sa.Column("created_at", sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ticket_keys")),
        **_OPTIONS,
    )
