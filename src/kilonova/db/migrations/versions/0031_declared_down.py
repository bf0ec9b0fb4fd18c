# SPDX-License-Identifier: Apache-2.0
"""Add whether the service-group driver declares a host down. NULL: it does not."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    op.add_column("services", sa.Column("declared_down", sa.Boolean(), nullable=True))
