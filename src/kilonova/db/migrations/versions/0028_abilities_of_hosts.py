# SPDX-License-Identifier: Apache-2.0
"""What the drivers of hypervisors can do. NULL: the agent is of a release that did not report it."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    op.add_column("compute_nodes", sa.Column("abilities", sa.JSON(), nullable=True))
