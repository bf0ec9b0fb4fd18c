# SPDX-License-Identifier: Apache-2.0
"""Add an index to find the soft-deleted servers that are due for deletion.

All other servers that exist have no ``deleted_at``.
"""

from alembic import op

revision = "0018"
down_revision = "0014"


def upgrade() -> None:
    op.create_index("ix_instances_deleted_at", "instances", ["deleted", "deleted_at"])
