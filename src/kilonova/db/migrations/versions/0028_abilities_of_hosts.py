# SPDX-License-Identifier: Apache-2.0
"""Add the abilities of hypervisor drivers. NULL: the agent's release does not report them."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    op.add_column("compute_nodes", sa.Column("abilities", sa.JSON(), nullable=True))
