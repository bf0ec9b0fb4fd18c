# SPDX-License-Identifier: Apache-2.0
"""Add an index for lists of the servers of all projects, which avoids a sort for every page."""

from alembic import op

revision = "0026"
down_revision = "0022"


def upgrade() -> None:
    op.create_index("ix_instances_listing_of_all", "instances", ["deleted", "created_at"])
