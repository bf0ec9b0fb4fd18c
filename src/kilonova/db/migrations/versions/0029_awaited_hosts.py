# SPDX-License-Identifier: Apache-2.0
"""Add the absent host that a workflow waits for, and the start of this wait. NULL: the workflow waits for no host."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    op.add_column("workflows", sa.Column("awaited_host", sa.String(255), nullable=True))
    op.add_column("workflows", sa.Column("awaited_since", time, nullable=True))
