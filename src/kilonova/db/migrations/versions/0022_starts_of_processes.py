# SPDX-License-Identifier: Apache-2.0
"""Add the start time of processes, which is unknown for existing ones."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0022"
down_revision = "0021"


_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    op.add_column("processes", sa.Column("started_at", _TIME))
