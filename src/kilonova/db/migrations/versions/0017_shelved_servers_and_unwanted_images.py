# SPDX-License-Identifier: Apache-2.0
"""Add the images of shelved servers, and the images to be removed."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0017"
down_revision = "0018"

_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}


def upgrade() -> None:
    time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    op.add_column("instances", sa.Column("shelved_image", sa.String(36), nullable=True))
    op.add_column("instances", sa.Column("shelved_at", time, nullable=True))
    op.create_table(
        "unwanted_images",
        sa.Column("image_id", sa.String(36), nullable=False),
        sa.Column("created_at", time, nullable=False),
        sa.PrimaryKeyConstraint("image_id", name=op.f("pk_unwanted_images")),
        **_OPTIONS,
    )
