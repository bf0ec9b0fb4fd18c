# SPDX-License-Identifier: Apache-2.0
"""Add encrypted passwords of servers, and console tokens."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0019"
down_revision = "0025"

_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}


def upgrade() -> None:
    time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    op.create_table(
        "server_passwords",
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.Column("encrypted", sa.String(2048), nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_uuid"], ["instances.uuid"], name=op.f("fk_server_passwords_instance_uuid_instances")
        ),
        sa.PrimaryKeyConstraint("instance_uuid", name=op.f("pk_server_passwords")),
        **_OPTIONS,
    )
    op.create_table(
        "console_auth_tokens",
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("instance_uuid", sa.String(36), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("console_type", sa.String(32), nullable=False),
        sa.Column("address", sa.String(255), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("tls_port", sa.Integer(), nullable=True),
        sa.Column("internal_access_path", sa.String(255), nullable=True),
        sa.Column("expires_at", time, nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_uuid"], ["instances.uuid"], name=op.f("fk_console_auth_tokens_instance_uuid_instances")
        ),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_console_auth_tokens")),
        **_OPTIONS,
    )
    op.create_index(op.f("ix_console_auth_tokens_instance_uuid"), "console_auth_tokens", ["instance_uuid"])
    op.create_index(op.f("ix_console_auth_tokens_expires_at"), "console_auth_tokens", ["expires_at"])
