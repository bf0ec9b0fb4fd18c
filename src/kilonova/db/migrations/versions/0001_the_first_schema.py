# SPDX-License-Identifier: Apache-2.0
"""Create the first schema."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "aggregates",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_aggregates")),
        sa.UniqueConstraint("name", name=op.f("uq_aggregates_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_aggregates_uuid")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=True,
    )
    op.create_table(
        "change_counter",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_change_counter")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "change_log",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("token", sa.String(length=36), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "body",
            sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mariadb").with_variant(mysql.LONGBLOB(), "mysql"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_change_log")),
        sa.UniqueConstraint("token", name=op.f("uq_change_log_token")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    with op.batch_alter_table("change_log", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_change_log_created_at"), ["created_at"], unique=False)

    op.create_table(
        "compute_nodes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("hypervisor_hostname", sa.String(length=255), nullable=False),
        sa.Column("host_ip", sa.String(length=39), nullable=False),
        sa.Column("capabilities", sa.JSON(), nullable=False),
        sa.Column("failed_builds", sa.Integer(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_compute_nodes")),
        sa.UniqueConstraint("host", "hypervisor_hostname", name=op.f("uq_compute_nodes_host_hypervisor_hostname")),
        sa.UniqueConstraint("uuid", name=op.f("uq_compute_nodes_uuid")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "consumers",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("consumer_type", sa.String(length=255), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_consumers")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    with op.batch_alter_table("consumers", schema=None) as batch_op:
        batch_op.create_index("ix_consumers_project_user", ["project_id", "user_id"], unique=False)

    op.create_table(
        "decisions",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column(
            "removed_by",
            sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mariadb").with_variant(mysql.LONGBLOB(), "mysql"),
            nullable=False,
        ),
        sa.Column("roster", sa.String(length=40), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    with op.batch_alter_table("decisions", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_decisions_created_at"), ["created_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_decisions_instance_uuid"), ["instance_uuid"], unique=False)
        batch_op.create_index(batch_op.f("ix_decisions_request_id"), ["request_id"], unique=False)

    op.create_table(
        "flavors",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("flavor_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("vcpus", sa.BigInteger(), nullable=False),
        sa.Column("memory_mib", sa.BigInteger(), nullable=False),
        sa.Column("root_gib", sa.BigInteger(), nullable=False),
        sa.Column("ephemeral_gib", sa.BigInteger(), nullable=False),
        sa.Column("swap_mib", sa.BigInteger(), nullable=False),
        sa.Column("rxtx_factor", sa.Double(), nullable=False),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column(
            "description",
            sa.Text().with_variant(mysql.LONGTEXT(), "mariadb").with_variant(mysql.LONGTEXT(), "mysql"),
            nullable=True,
        ),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flavors")),
        sa.UniqueConstraint("flavor_id", name=op.f("uq_flavors_flavor_id")),
        sa.UniqueConstraint("name", name=op.f("uq_flavors_name")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "host_agents",
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("process", sa.String(length=36), nullable=False),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_host_agents")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    with op.batch_alter_table("host_agents", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_host_agents_process"), ["process"], unique=False)

    op.create_table(
        "instances",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("hostname", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("vm_state", sa.String(length=32), nullable=False),
        sa.Column("task_state", sa.String(length=64), nullable=True),
        sa.Column("power_state", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("node", sa.String(length=255), nullable=True),
        sa.Column("flavor_id", sa.String(length=255), nullable=False),
        sa.Column("flavor", sa.JSON(), nullable=False),
        sa.Column("image_ref", sa.String(length=255), nullable=True),
        sa.Column("key_name", sa.String(length=255), nullable=True),
        sa.Column(
            "user_data",
            sa.Text().with_variant(mysql.LONGTEXT(), "mariadb").with_variant(mysql.LONGTEXT(), "mysql"),
            nullable=True,
        ),
        sa.Column("config_drive", sa.String(length=255), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("reservation_id", sa.String(length=64), nullable=False),
        sa.Column("launch_index", sa.Integer(), nullable=False),
        sa.Column("availability_zone", sa.String(length=255), nullable=True),
        sa.Column("disk_config", sa.String(length=16), nullable=False),
        sa.Column("access_ip_v4", sa.String(length=39), nullable=True),
        sa.Column("access_ip_v6", sa.String(length=39), nullable=True),
        sa.Column("progress", sa.Integer(), nullable=False),
        sa.Column("locked_by", sa.String(length=16), nullable=True),
        sa.Column("locked_reason", sa.String(length=255), nullable=True),
        sa.Column("group_uuid", sa.String(length=36), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.Column(
            "launched_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.Column(
            "terminated_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.Column(
            "deleted_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instances")),
        sa.UniqueConstraint("uuid", name=op.f("uq_instances_uuid")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("instances", schema=None) as batch_op:
        batch_op.create_index("ix_instances_host", ["host", "deleted"], unique=False)
        batch_op.create_index("ix_instances_listing", ["deleted", "project_id", "created_at"], unique=False)
        batch_op.create_index("ix_instances_reservation_id", ["reservation_id"], unique=False)

    op.create_table(
        "keypairs",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("type", sa.String(length=16), nullable=False),
        sa.Column("fingerprint", sa.String(length=255), nullable=False),
        sa.Column(
            "public_key",
            sa.Text().with_variant(mysql.LONGTEXT(), "mariadb").with_variant(mysql.LONGTEXT(), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_keypairs")),
        sa.UniqueConstraint("user_id", "name", name=op.f("uq_keypairs_user_id_name")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "placement_aggregates",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_placement_aggregates")),
        sa.UniqueConstraint("uuid", name=op.f("uq_placement_aggregates_uuid")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "processes",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column(
            "lease_until",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_processes")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "resource_classes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_resource_classes")),
        sa.UniqueConstraint("name", name=op.f("uq_resource_classes_name")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "resource_providers",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("root_provider_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("parent_provider_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.ForeignKeyConstraint(
            ["parent_provider_id"], ["resource_providers.id"], name=op.f("fk_resource_providers_parent_provider_id")
        ),
        sa.ForeignKeyConstraint(
            ["root_provider_id"], ["resource_providers.id"], name=op.f("fk_resource_providers_root_provider_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_resource_providers")),
        sa.UniqueConstraint("name", name=op.f("uq_resource_providers_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_resource_providers_uuid")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    with op.batch_alter_table("resource_providers", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_resource_providers_parent_provider_id"), ["parent_provider_id"], unique=False
        )
        batch_op.create_index(batch_op.f("ix_resource_providers_root_provider_id"), ["root_provider_id"], unique=False)

    op.create_table(
        "rosters",
        sa.Column("digest", sa.String(length=40), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "names",
            sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mariadb").with_variant(mysql.LONGBLOB(), "mysql"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_rosters")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "server_groups",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("policy", sa.String(length=32), nullable=False),
        sa.Column("max_server_per_host", sa.Integer(), nullable=False),
        sa.Column("has_rules", sa.Boolean(), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_server_groups")),
        sa.UniqueConstraint("uuid", name=op.f("uq_server_groups_uuid")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    with op.batch_alter_table("server_groups", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_server_groups_project_id"), ["project_id"], unique=False)

    op.create_table(
        "services",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("binary", sa.String(length=255), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.String(length=255), nullable=True),
        sa.Column("forced_down", sa.Boolean(), nullable=False),
        sa.Column(
            "last_seen_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_services")),
        sa.UniqueConstraint("host", "binary", name=op.f("uq_services_host_binary")),
        sa.UniqueConstraint("uuid", name=op.f("uq_services_uuid")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "traits",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_traits")),
        sa.UniqueConstraint("name", name=op.f("uq_traits_name")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "workflows",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("reservation_id", sa.String(length=64), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("step", sa.String(length=32), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("owner", sa.String(length=36), nullable=False),
        sa.Column(
            "lease_until",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column("handed_over", sa.Boolean(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_workflows")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    with op.batch_alter_table("workflows", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_workflows_instance_uuid"), ["instance_uuid"], unique=False)
        batch_op.create_index(batch_op.f("ix_workflows_lease_until"), ["lease_until"], unique=False)
        batch_op.create_index(batch_op.f("ix_workflows_owner"), ["owner"], unique=False)

    op.create_table(
        "aggregate_hosts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("aggregate_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["aggregate_id"], ["aggregates.id"], name=op.f("fk_aggregate_hosts_aggregate_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_aggregate_hosts")),
        sa.UniqueConstraint("aggregate_id", "host", name=op.f("uq_aggregate_hosts_aggregate_id_host")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    with op.batch_alter_table("aggregate_hosts", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_aggregate_hosts_host"), ["host"], unique=False)

    op.create_table(
        "aggregate_metadata",
        sa.Column("aggregate_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("value", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["aggregate_id"], ["aggregates.id"], name=op.f("fk_aggregate_metadata_aggregate_id")),
        sa.PrimaryKeyConstraint("aggregate_id", "key", name=op.f("pk_aggregate_metadata")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "allocations",
        sa.Column("consumer_uuid", sa.String(length=36), nullable=False),
        sa.Column("resource_provider_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("resource_class_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.ForeignKeyConstraint(["consumer_uuid"], ["consumers.uuid"], name=op.f("fk_allocations_consumer_uuid")),
        sa.ForeignKeyConstraint(
            ["resource_class_id"], ["resource_classes.id"], name=op.f("fk_allocations_resource_class_id")
        ),
        sa.ForeignKeyConstraint(
            ["resource_provider_id"], ["resource_providers.id"], name=op.f("fk_allocations_resource_provider_id")
        ),
        sa.PrimaryKeyConstraint(
            "consumer_uuid", "resource_provider_id", "resource_class_id", name=op.f("pk_allocations")
        ),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    with op.batch_alter_table("allocations", schema=None) as batch_op:
        batch_op.create_index(
            "ix_allocations_provider_class", ["resource_provider_id", "resource_class_id"], unique=False
        )

    op.create_table(
        "flavor_extra_specs",
        sa.Column("flavor_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("value", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["flavor_id"], ["flavors.id"], name=op.f("fk_flavor_extra_specs_flavor_id")),
        sa.PrimaryKeyConstraint("flavor_id", "key", name=op.f("pk_flavor_extra_specs")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "flavor_projects",
        sa.Column("flavor_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["flavor_id"], ["flavors.id"], name=op.f("fk_flavor_projects_flavor_id")),
        sa.PrimaryKeyConstraint("flavor_id", "project_id", name=op.f("pk_flavor_projects")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "instance_faults",
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("code", sa.Integer(), nullable=False),
        sa.Column("message", sa.String(length=255), nullable=False),
        sa.Column(
            "details",
            sa.Text().with_variant(mysql.LONGTEXT(), "mariadb").with_variant(mysql.LONGTEXT(), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["instance_uuid"], ["instances.uuid"], name=op.f("fk_instance_faults_instance_uuid")),
        sa.PrimaryKeyConstraint("instance_uuid", name=op.f("pk_instance_faults")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "instance_tags",
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("tag", sa.String(length=80), nullable=False),
        sa.ForeignKeyConstraint(["instance_uuid"], ["instances.uuid"], name=op.f("fk_instance_tags_instance_uuid")),
        sa.PrimaryKeyConstraint("instance_uuid", "tag", name=op.f("pk_instance_tags")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "inventories",
        sa.Column("resource_provider_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("resource_class_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("total", sa.BigInteger(), nullable=False),
        sa.Column("reserved", sa.BigInteger(), nullable=False),
        sa.Column("min_unit", sa.BigInteger(), nullable=False),
        sa.Column("max_unit", sa.BigInteger(), nullable=False),
        sa.Column("step_size", sa.BigInteger(), nullable=False),
        sa.Column("allocation_ratio", sa.Double(), nullable=False),
        sa.Column("capacity", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mariadb").with_variant(mysql.DATETIME(fsp=6), "mysql"),
            nullable=True,
        ),
        sa.ForeignKeyConstraint(
            ["resource_class_id"], ["resource_classes.id"], name=op.f("fk_inventories_resource_class_id")
        ),
        sa.ForeignKeyConstraint(
            ["resource_provider_id"], ["resource_providers.id"], name=op.f("fk_inventories_resource_provider_id")
        ),
        sa.PrimaryKeyConstraint("resource_provider_id", "resource_class_id", name=op.f("pk_inventories")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    with op.batch_alter_table("inventories", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_inventories_resource_class_id"), ["resource_class_id"], unique=False)

    op.create_table(
        "request_specs",
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["instance_uuid"], ["instances.uuid"], name=op.f("fk_request_specs_instance_uuid")),
        sa.PrimaryKeyConstraint("instance_uuid", name=op.f("pk_request_specs")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "resource_provider_aggregates",
        sa.Column("resource_provider_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("aggregate_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(
            ["aggregate_id"], ["placement_aggregates.id"], name=op.f("fk_resource_provider_aggregates_aggregate_id")
        ),
        sa.ForeignKeyConstraint(
            ["resource_provider_id"],
            ["resource_providers.id"],
            name=op.f("fk_resource_provider_aggregates_resource_provider_id"),
        ),
        sa.PrimaryKeyConstraint("resource_provider_id", "aggregate_id", name=op.f("pk_resource_provider_aggregates")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    with op.batch_alter_table("resource_provider_aggregates", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_resource_provider_aggregates_aggregate_id"), ["aggregate_id"], unique=False
        )

    op.create_table(
        "resource_provider_traits",
        sa.Column("resource_provider_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("trait_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(
            ["resource_provider_id"],
            ["resource_providers.id"],
            name=op.f("fk_resource_provider_traits_resource_provider_id"),
        ),
        sa.ForeignKeyConstraint(["trait_id"], ["traits.id"], name=op.f("fk_resource_provider_traits_trait_id")),
        sa.PrimaryKeyConstraint("resource_provider_id", "trait_id", name=op.f("pk_resource_provider_traits")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    with op.batch_alter_table("resource_provider_traits", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_resource_provider_traits_trait_id"), ["trait_id"], unique=False)

    op.create_table(
        "server_group_hosts",
        sa.Column("group_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("members", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["group_id"], ["server_groups.id"], name=op.f("fk_server_group_hosts_group_id")),
        sa.PrimaryKeyConstraint("group_id", "host", name=op.f("pk_server_group_hosts")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    op.create_table(
        "server_group_members",
        sa.Column("group_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(["group_id"], ["server_groups.id"], name=op.f("fk_server_group_members_group_id")),
        sa.PrimaryKeyConstraint("group_id", "instance_uuid", name=op.f("pk_server_group_members")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_nopad_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_nopad_bin",
        mysql_engine="InnoDB",
        sqlite_autoincrement=False,
    )
    with op.batch_alter_table("server_group_members", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_server_group_members_instance_uuid"), ["instance_uuid"], unique=False)
