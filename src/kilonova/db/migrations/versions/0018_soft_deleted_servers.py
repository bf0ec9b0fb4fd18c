# SPDX-License-Identifier: Apache-2.0
"""Add an index by which soft-deleted servers due for deletion are found; other servers have no ``deleted_at``."""

from alembic import op

revision = "0018"
down_revision = "0014"


def upgrade() -> None:
    op.create_index("ix_instances_deleted_at", "instances", ["deleted", "deleted_at"])
