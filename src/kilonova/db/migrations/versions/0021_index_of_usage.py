# SPDX-License-Identifier: Apache-2.0
"""An index for what projects used: their servers by uuid, deleted ones too."""

from alembic import op

revision = "0021"
down_revision = "0023"


def upgrade() -> None:
    op.create_index("ix_instances_usage", "instances", ["project_id", "uuid"])
