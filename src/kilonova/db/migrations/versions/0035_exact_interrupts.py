# SPDX-License-Identifier: Apache-2.0
"""Add interrupts that the release before does not know. NULL: ``interrupt`` is exact."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    op.add_column("workflows", sa.Column("exact_interrupt", sa.String(32), nullable=True))
