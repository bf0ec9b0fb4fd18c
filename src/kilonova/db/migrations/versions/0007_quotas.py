# SPDX-License-Identifier: Apache-2.0
"""Add quotas: limits of projects, users and classes, and the usage of existing servers."""

from collections import defaultdict
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_nopad_bin"))
}


def upgrade() -> None:
    quotas = op.create_table(
        "quotas",
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255), nullable=False),
        sa.Column("instances", sa.BigInteger(), nullable=False),
        sa.Column("cores", sa.BigInteger(), nullable=False),
        sa.Column("ram", sa.BigInteger(), nullable=False),
        sa.Column("limits", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "user_id", name=op.f("pk_quotas")),
        **_OPTIONS,
    )
    op.create_table(
        "quota_classes",
        sa.Column("class_name", sa.String(255), nullable=False),
        sa.Column("limits", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("class_name", name=op.f("pk_quota_classes")),
        **_OPTIONS,
    )
    _count_servers(quotas)


def _count_servers(quotas: sa.Table) -> None:
    instances = sa.table(
        "instances",
        sa.column("project_id", sa.String),
        sa.column("vm_state", sa.String),
        sa.column("flavor", sa.JSON),
        sa.column("deleted", sa.Boolean),
    )
    alive = sa.select(instances.c.project_id, instances.c.flavor).where(
        instances.c.deleted.is_(False), instances.c.vm_state != "soft-delete"
    )
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    connection = op.get_bind()
    for project_id, flavor in connection.execute(alive):
        counted = sums[project_id]
        for index, amount in enumerate((1, flavor["vcpus"], flavor["memory_mib"])):
            counted[index] += amount
    rows = [
        {"project_id": project_id, "user_id": "", "instances": count, "cores": cores, "ram": ram, "limits": {}}
        for project_id, (count, cores, ram) in sorted(sums.items())
    ]
    if rows:
        connection.execute(sa.insert(quotas), rows)
