# SPDX-License-Identifier: Apache-2.0
"""Every table. The migrations must end in exactly this (a test compares them on every database).

Units as in the column names; times are UTC without zone. ``JSON`` columns hold what is read whole and never searched.
"""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects import mysql

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

#: OutgoingMessage for letter, as SQLite and PostgreSQL compare; without "nopad" a trailing blank would not count.
COLLATION = "utf8mb4_nopad_bin"
# SQLAlchemy reads the options of mysql:// and mariadb:// URLs apart.
_CHARSET = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", COLLATION))
}
Time = DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_Long = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
_Blob = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
_Json = JSON()
_Id = BigInteger().with_variant(Integer, "sqlite")


def _table(name: str, *items: Column[Any] | Index | UniqueConstraint, sqlite_autoincrement: bool = False) -> Table:
    options: dict[str, Any] = {**_CHARSET, "sqlite_autoincrement": sqlite_autoincrement}
    return Table(name, metadata, *items, **options)


def _key() -> Column[int]:
    return Column("id", _Id, primary_key=True, autoincrement=True)


def _times() -> tuple[Column[Any], Column[Any]]:
    return Column("created_at", Time, nullable=False), Column("updated_at", Time)


# --- the order of commits ---------------------------------------------------------------------------------------------

change_counter = _table(
    "change_counter",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
)

change_log = _table(
    "change_log",
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("token", String(36), nullable=False, unique=True),
    Column("created_at", Time, nullable=False, index=True),
    Column("body", _Blob, nullable=False),
)

# --- placement --------------------------------------------------------------------------------------------------------

resource_classes = _table(
    "resource_classes", _key(), Column("name", String(255), nullable=False, unique=True), *_times()
)

traits = _table("traits", _key(), Column("name", String(255), nullable=False, unique=True), *_times())

resource_providers = _table(
    "resource_providers",
    _key(),
    Column("uuid", String(36), nullable=False, unique=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("generation", Integer, nullable=False, default=0),
    Column("root_provider_id", ForeignKey("resource_providers.id"), index=True),
    Column("parent_provider_id", ForeignKey("resource_providers.id"), index=True),
    *_times(),
)

inventories = _table(
    "inventories",
    Column("resource_provider_id", ForeignKey("resource_providers.id"), primary_key=True),
    Column("resource_class_id", ForeignKey("resource_classes.id"), primary_key=True, index=True),
    Column("total", BigInteger, nullable=False),
    Column("reserved", BigInteger, nullable=False),
    Column("min_unit", BigInteger, nullable=False),
    Column("max_unit", BigInteger, nullable=False),
    Column("step_size", BigInteger, nullable=False),
    Column("allocation_ratio", Double(), nullable=False),
    Column("capacity", BigInteger, nullable=False),
    Column("used", BigInteger, nullable=False, default=0),
    *_times(),
)

resource_provider_traits = _table(
    "resource_provider_traits",
    Column("resource_provider_id", ForeignKey("resource_providers.id"), primary_key=True),
    Column("trait_id", ForeignKey("traits.id"), primary_key=True, index=True),
)

placement_aggregates = _table("placement_aggregates", _key(), Column("uuid", String(36), nullable=False, unique=True))

resource_provider_aggregates = _table(
    "resource_provider_aggregates",
    Column("resource_provider_id", ForeignKey("resource_providers.id"), primary_key=True),
    Column("aggregate_id", ForeignKey("placement_aggregates.id"), primary_key=True, index=True),
)

consumers = _table(
    "consumers",
    Column("uuid", String(36), primary_key=True),
    Column("project_id", String(255), nullable=False),
    Column("user_id", String(255), nullable=False),
    Column("consumer_type", String(255)),
    Column("generation", Integer, nullable=False, default=0),
    *_times(),
    Index("ix_consumers_project_user", "project_id", "user_id"),
)

allocations = _table(
    "allocations",
    Column("consumer_uuid", ForeignKey("consumers.uuid"), primary_key=True),
    Column("resource_provider_id", ForeignKey("resource_providers.id"), primary_key=True),
    Column("resource_class_id", ForeignKey("resource_classes.id"), primary_key=True),
    Column("used", BigInteger, nullable=False),
    *_times(),
    Index("ix_allocations_provider_class", "resource_provider_id", "resource_class_id"),
)

# --- hosts ------------------------------------------------------------------------------------------------------------

services = _table(
    "services",
    _key(),
    Column("uuid", String(36), nullable=False, unique=True),
    Column("host", String(255), nullable=False),
    Column("binary", String(255), nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("disabled_reason", String(255)),
    Column("forced_down", Boolean, nullable=False),
    *_times(),
    UniqueConstraint("host", "binary"),
)

compute_nodes = _table(
    "compute_nodes",
    _key(),
    Column("uuid", String(36), nullable=False, unique=True),
    Column("host", String(255), nullable=False),
    Column("hypervisor_hostname", String(255), nullable=False),
    Column("host_ip", String(39), nullable=False),
    Column("capabilities", _Json, nullable=False),
    Column("failed_builds", Integer, nullable=False, default=0),
    *_times(),
    Column("metrics", _Json),
    # NULL: its agent has reported none yet.
    Column("abilities", JSON(none_as_null=True)),
    UniqueConstraint("host", "hypervisor_hostname"),
)

# The guard rows of NUMA cells: their use changes only from the version that was read.
numa_cells = _table(
    "numa_cells",
    Column("node_uuid", String(36), primary_key=True),
    Column("cell", Integer, primary_key=True, autoincrement=False),
    Column("facts", _Json, nullable=False),
    Column("used", _Json, nullable=False),
    Column("version", BigInteger, nullable=False),
)

# The guard rows of PCI pools: no more used than there are.
pci_pools = _table(
    "pci_pools",
    Column("node_uuid", String(36), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("facts", _Json, nullable=False),
    Column("total", Integer, nullable=False),
    Column("used", Integer, nullable=False),
)

# What each server takes of the cells and pools of its hypervisor.
device_shares = _table(
    "device_shares",
    Column("instance_uuid", String(36), primary_key=True),
    Column("node_uuid", String(36), nullable=False, index=True),
    Column("body", _Json, nullable=False),
)

aggregates = _table(
    "aggregates",
    _key(),
    Column("uuid", String(36), nullable=False, unique=True),
    Column("name", String(255), nullable=False, unique=True),
    *_times(),
    sqlite_autoincrement=True,
)

aggregate_hosts = _table(
    "aggregate_hosts",
    _key(),
    Column("aggregate_id", ForeignKey("aggregates.id"), nullable=False),
    Column("host", String(255), nullable=False, index=True),
    UniqueConstraint("aggregate_id", "host"),
)

aggregate_metadata = _table(
    "aggregate_metadata",
    Column("aggregate_id", ForeignKey("aggregates.id"), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("value", String(255), nullable=False),
)

#: One row, once there is an isolation rule: what claims compare to know that rules and hosts under them are the same.
isolation_version = _table(
    "isolation_version",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
)

# --- what servers are made of -----------------------------------------------------------------------------------------

flavors = _table(
    "flavors",
    _key(),
    Column("flavor_id", String(255), nullable=False, unique=True),
    Column("name", String(255), nullable=False, unique=True),
    Column("vcpus", BigInteger, nullable=False),
    Column("memory_mib", BigInteger, nullable=False),
    Column("root_gib", BigInteger, nullable=False),
    Column("ephemeral_gib", BigInteger, nullable=False),
    Column("swap_mib", BigInteger, nullable=False),
    Column("rxtx_factor", Double(), nullable=False),
    Column("is_public", Boolean, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("description", _Long),
    *_times(),
)

flavor_extra_specs = _table(
    "flavor_extra_specs",
    Column("flavor_id", ForeignKey("flavors.id"), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("value", String(255), nullable=False),
)

flavor_projects = _table(
    "flavor_projects",
    Column("flavor_id", ForeignKey("flavors.id"), primary_key=True),
    Column("project_id", String(255), primary_key=True),
)

# What the servers of a project count ("" as user), and of each user who has limits of his own there; ram in MiB.
# ``limits``: resource → limit, those alone that were set for this project or user.
quotas = _table(
    "quotas",
    Column("project_id", String(255), primary_key=True),
    Column("user_id", String(255), primary_key=True),
    Column("instances", BigInteger, nullable=False),
    Column("cores", BigInteger, nullable=False),
    Column("ram", BigInteger, nullable=False),
    Column("limits", _Json, nullable=False),
)

# Limits that hold where a project has none of its own; only the class "default" is in force anywhere.
quota_classes = _table(
    "quota_classes",
    Column("class_name", String(255), primary_key=True),
    Column("limits", _Json, nullable=False),
)

keypairs = _table(
    "keypairs",
    _key(),
    Column("user_id", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("type", String(16), nullable=False),
    Column("fingerprint", String(255), nullable=False),
    Column("public_key", _Long, nullable=False),
    *_times(),
    UniqueConstraint("user_id", "name"),
)

server_groups = _table(
    "server_groups",
    _key(),
    Column("uuid", String(36), nullable=False, unique=True),
    Column("name", String(255), nullable=False),
    Column("project_id", String(255), nullable=False, index=True),
    Column("user_id", String(255), nullable=False),
    Column("policy", String(32), nullable=False),
    Column("max_server_per_host", Integer, nullable=False),
    Column("has_rules", Boolean, nullable=False),
    # The guard row of affinity: the one host of all members, None while there are none.
    Column("host", String(255)),
    *_times(),
)

server_group_members = _table(
    "server_group_members",
    Column("group_id", ForeignKey("server_groups.id"), primary_key=True),
    Column("instance_uuid", String(36), primary_key=True, index=True),
)

# The guard rows of the group policies: how many members each host holds.
server_group_hosts = _table(
    "server_group_hosts",
    Column("group_id", ForeignKey("server_groups.id"), primary_key=True),
    Column("host", String(255), primary_key=True),
    Column("members", Integer, nullable=False),
)

# --- servers ----------------------------------------------------------------------------------------------------------

instances = _table(
    "instances",
    _key(),
    Column("uuid", String(36), nullable=False, unique=True),
    Column("name", String(255), nullable=False),
    Column("hostname", String(255), nullable=False),
    Column("description", String(255)),
    Column("project_id", String(255), nullable=False),
    Column("user_id", String(255), nullable=False),
    Column("vm_state", String(32), nullable=False),
    Column("task_state", String(64)),
    Column("power_state", Integer, nullable=False),
    Column("host", String(255)),
    Column("node", String(255)),
    Column("flavor_id", String(255), nullable=False),
    Column("flavor", _Json, nullable=False),
    Column("image_ref", String(255)),
    Column("key_name", String(255)),
    Column("config_drive", String(255), nullable=False),
    Column("metadata", _Json, nullable=False),
    Column("reservation_id", String(64), nullable=False),
    Column("launch_index", Integer, nullable=False),
    Column("availability_zone", String(255)),
    Column("disk_config", String(16), nullable=False),
    Column("access_ip_v4", String(39)),
    Column("access_ip_v6", String(39)),
    Column("progress", Integer, nullable=False),
    Column("locked_by", String(16)),
    Column("locked_reason", String(255)),
    Column("group_uuid", String(36)),
    *_times(),
    Column("launched_at", Time),
    Column("terminated_at", Time),
    Column("deleted_at", Time),
    Column("deleted", Boolean, nullable=False),
    Column("image_properties", _Json),
    # Servers of one request share it; one that is changed later gets one of its own.
    Column("request_spec_uuid", String(36), index=True),
    # Of a shelved server: the image that its guest is made of again, and since when.
    Column("shelved_image", String(36)),
    Column("shelved_at", Time),
    Index("ix_instances_listing", "deleted", "project_id", "created_at"),
    Index("ix_instances_listing_of_all", "deleted", "created_at"),
    Index("ix_instances_host", "host", "deleted"),
    Index("ix_instances_reservation_id", "reservation_id"),
    Index("ix_instances_deleted_at", "deleted", "deleted_at"),
    Index("ix_instances_usage", "project_id", "uuid"),
    sqlite_autoincrement=True,
)

instance_tags = _table(
    "instance_tags",
    Column("instance_uuid", ForeignKey("instances.uuid"), primary_key=True),
    Column("tag", String(80), primary_key=True),
)

instance_faults = _table(
    "instance_faults",
    Column("instance_uuid", ForeignKey("instances.uuid"), primary_key=True),
    Column("code", Integer, nullable=False),
    Column("message", String(255), nullable=False),
    Column("details", _Long, nullable=False),
    Column("created_at", Time, nullable=False),
)

# Passwords of administrators, encrypted with the servers' own public keys.
server_passwords = _table(
    "server_passwords",
    Column("instance_uuid", ForeignKey("instances.uuid"), primary_key=True),
    Column("encrypted", String(2048), nullable=False),
)

# Who has one of these tokens, of which only a hash is here, may use the console of a server until it expires.
console_auth_tokens = _table(
    "console_auth_tokens",
    Column("token_hash", String(64), primary_key=True),
    Column("instance_uuid", ForeignKey("instances.uuid"), nullable=False, index=True),
    Column("host", String(255), nullable=False),
    Column("console_type", String(32), nullable=False),
    Column("address", String(255), nullable=False),
    Column("port", Integer, nullable=False),
    Column("tls_port", Integer),
    Column("internal_access_path", String(255)),
    Column("expires_at", Time, nullable=False, index=True),
)

# What was asked when servers were made: one row for all servers of a request, gone with the last of them.
request_specs = _table(
    "request_specs",
    Column("uuid", String(36), primary_key=True),
    Column("request_id", String(64), nullable=False),
    Column("user_data", _Long),
    Column("body", _Json, nullable=False),
)

# What was done to a server, by request: what users read as instance actions. Written with the operation's own changes.
instance_actions = _table(
    "instance_actions",
    _key(),
    Column("instance_uuid", String(36), nullable=False),
    Column("action", String(255), nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("user_id", String(255), nullable=False),
    Column("project_id", String(255), nullable=False),
    Column("started_at", Time, nullable=False),
    Column("updated_at", Time),
    Column("finished_at", Time),
    # "Error" when it failed for good.
    Column("message", String(255)),
    Index("ix_instance_actions_instance", "instance_uuid", "request_id"),
)

# The steps of these actions. ``details`` is for the owner of the server, ``traceback`` for administrators.
instance_action_events = _table(
    "instance_action_events",
    _key(),
    Column("instance_uuid", String(36), nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("event", String(255), nullable=False),
    Column("started_at", Time, nullable=False),
    Column("finished_at", Time),
    Column("result", String(16)),
    Column("host", String(255)),
    Column("details", String(255)),
    Column("traceback", _Long),
    Index("ix_instance_action_events_instance", "instance_uuid", "request_id"),
)

# One row a move of a server between hosts. ``uuid`` is also the consumer that holds the source's resources meanwhile.
server_migrations = _table(
    "server_migrations",
    _key(),
    Column("uuid", String(36), nullable=False, unique=True),
    Column("instance_uuid", String(36), nullable=False, index=True),
    # resize, migration, live-migration or evacuation
    Column("migration_type", String(32), nullable=False),
    Column("status", String(32), nullable=False),
    Column("source_host", String(255), nullable=False),
    Column("source_node", String(255), nullable=False),
    Column("dest_host", String(255)),
    Column("dest_node", String(255)),
    Column("old_flavor", _Json, nullable=False),
    Column("new_flavor", _Json, nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("user_id", String(255), nullable=False),
    Column("project_id", String(255), nullable=False),
    # What a live migration has copied so far, in bytes: memory and disk, each total, processed and remaining.
    Column("progress", _Json),
    *_times(),
    Index("ix_server_migrations_status", "status"),
    Index("ix_server_migrations_hosts", "source_host", "dest_host"),
)

# --- operations -------------------------------------------------------------------------------------------------------

workflows = _table(
    "workflows",
    Column("uuid", String(36), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("instance_uuid", String(36), nullable=False, index=True),
    Column("reservation_id", String(64), nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("step", String(32), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("facts", _Json, nullable=False),
    # The process that runs it, for as long as that one has its lease (``processes``).
    Column("owner", String(36), nullable=False, index=True),
    # Set by a process that gave the workflow to another one, which has not noticed yet.
    Column("handed_over", Boolean, nullable=False, default=False),
    *_times(),
    # The workflow of the whole request, which decides when this one goes on; none any more once that one is gone.
    Column("batch_uuid", String(36), index=True),
    # Every change of the row raises it; whoever knows an older one writes nothing.
    Column("version", Integer, nullable=False, default=0),
    Column("undoing", Boolean, nullable=False, default=False),
    Column("failure", JSON(none_as_null=True)),
    # Who wants it to end, or to end sooner; it walks back or goes on accordingly.
    Column("interrupt", String(32)),
    Column("tries", Integer, nullable=False, default=0),
    # It waits for an operator.
    Column("stuck", Boolean, nullable=False, default=False),
    # It begins when the other workflows of its instance have ended.
    Column("waiting", Boolean, nullable=False, default=False),
)

# Control processes, and sessions of agent processes: which are alive, and in which of them the agent of a host runs.
processes = _table(
    "processes",
    Column("uuid", String(36), primary_key=True),
    # Until when it may act for its hosts, and keeps its workflows.
    Column("lease_until", Time, nullable=False),
    Column("last_seen_at", Time, nullable=False),
    # Whether its services count as up: only changes of that are logged.
    Column("up", Boolean, nullable=False),
    # The machine that it runs on; empty where nobody said.
    Column("machine", String(255), nullable=False),
    # The name of an agent process that is reached through the broker.
    Column("agent", String(255)),
    Column("release_version", String(64)),
    Column("message_version", Integer),
    # None for one that was there before it was noted.
    Column("started_at", Time),
)

host_agents = _table(
    "host_agents",
    Column("host", String(255), primary_key=True),
    Column("process", String(36), nullable=False, index=True),
)

# Guests that have to go from a host where nobody could be asked to remove them, in the words of ``RemovalReason``.
departures = _table(
    "departures",
    Column("host", String(255), primary_key=True),
    Column("instance_uuid", String(36), primary_key=True, index=True),
    Column("departure", String(16), nullable=False),
    Column("created_at", Time, nullable=False),
)

# Guests that have to be what they were before a move that their host could not be asked to undo.
homecomings = _table(
    "homecomings",
    Column("host", String(255), primary_key=True),
    Column("instance_uuid", String(36), ForeignKey("instances.uuid"), primary_key=True, index=True),
    Column("drops_made", Boolean, nullable=False),
    Column("runs", Boolean, nullable=False),
    Column("created_at", Time, nullable=False),
)

# Where the last report of a host and the database differ, in the words of ``StrayKind``.
odd_guests = _table(
    "odd_guests",
    _key(),
    Column("host", String(255), nullable=False),
    Column("instance_uuid", String(36), nullable=False),
    Column("oddity", String(16), nullable=False),
    Column("power_state", Integer, nullable=False),
    Column("recorded_host", String(255)),
    Column("created_at", Time, nullable=False),
    UniqueConstraint("host", "instance_uuid"),
)

# Agent processes by their users at the broker. ``version``: of their last change, among all.
enrolled_agents = _table(
    "enrolled_agents",
    Column("name", String(128), primary_key=True),
    Column("version", BigInteger, nullable=False, index=True),
    Column("created_at", Time, nullable=False),
    Column("revoked_at", Time),
)

enrolled_hosts = _table(
    "enrolled_hosts",
    Column("host", String(255), primary_key=True),
    Column("agent", ForeignKey("enrolled_agents.name"), nullable=False, index=True),
)

# Keys that sign tickets for image data: the newest signs.
ticket_keys = _table(
    "ticket_keys",
    _key(),
    Column("secret", String(64), nullable=False),
    Column("created_at", Time, nullable=False),
)

# Images that Kilonova registered and nobody needs: removed as soon as the image service can be asked.
unwanted_images = _table(
    "unwanted_images",
    Column("image_id", String(36), primary_key=True),
    Column("created_at", Time, nullable=False),
)

# Switches of the whole cloud that operators turn while it runs: one is on while it has a row.
switches = _table(
    "switches",
    Column("name", String(64), primary_key=True),
    Column("reason", String(255), nullable=False),
    Column("created_at", Time, nullable=False),
)

#: ``after_id``: the last instance of which others were told in a period. ``servers``: how many that were.
usage_audits = _table(
    "usage_audits",
    Column("period_beginning", Time, primary_key=True),
    Column("period_ending", Time, primary_key=True),
    Column("after_id", Integer, nullable=False),
    Column("servers", Integer, nullable=False),
    Column("finished_at", Time),
)

decisions = _table(
    "decisions",
    _key(),
    Column("request_id", String(64), nullable=False, index=True),
    Column("instance_uuid", String(36), nullable=False, index=True),
    Column("created_at", Time, nullable=False, index=True),
    Column("seq", BigInteger, nullable=False),
    Column("body", _Json, nullable=False),
    Column("removed_by", _Blob, nullable=False),
    Column("roster", String(40), nullable=False),
    Column("circumstances_id", String(36), index=True),
    Column("server_index", Integer),
)

# What one request was decided on, for a replay: one row for all of its servers.
circumstances = _table(
    "circumstances",
    Column("uuid", String(36), primary_key=True),
    Column("created_at", Time, nullable=False),
    Column("body", _Blob, nullable=False),
)

# Everything that mirrors hold, as it was after commit ``seq``. Complete from the moment that it has one.
checkpoints = _table(
    "checkpoints",
    _key(),
    Column("created_at", Time, nullable=False),
    Column("seq", BigInteger, index=True),
)

checkpoint_parts = _table(
    "checkpoint_parts",
    Column("checkpoint_id", ForeignKey("checkpoints.id"), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("body", _Blob, nullable=False),
)

# The names behind the rows of a decision, once per change of the set of hosts.
rosters = _table(
    "rosters",
    Column("digest", String(40), primary_key=True),
    Column("created_at", Time, nullable=False),
    Column("names", _Blob, nullable=False),
)
