# SPDX-License-Identifier: Apache-2.0
"""Since when a process is there. Of those that are there already nobody knows."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0022"
down_revision = "0021"


_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def upgrade() -> None:
    op.add_column("processes", sa.Column("started_at", _TIME))
