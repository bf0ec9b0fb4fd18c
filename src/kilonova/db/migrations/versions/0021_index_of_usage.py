# SPDX-License-Identifier: Apache-2.0
"""Add an index for the usage of projects: their servers by uuid, including deleted ones."""

from alembic import op

revision = "0021"
down_revision = "0023"


def upgrade() -> None:
    op.create_index("ix_instances_usage", "instances", ["project_id", "uuid"])
