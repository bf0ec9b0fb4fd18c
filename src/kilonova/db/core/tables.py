# SPDX-License-Identifier: Apache-2.0
"""All tables. The migrations must produce exactly this schema (a test compares them on every database).

Units as in the column names; times are UTC without zone. ``JSON`` columns hold values that are never searched.
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

#: MariaDB's collation: binary, as in SQLite and PostgreSQL; one without "nopad" would ignore trailing blanks.
COLLATION = "utf8mb4_nopad_bin"
# SQLAlchemy has separate table options for mysql:// and mariadb:// URLs.
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


# --- change log -------------------------------------------------------------------------------------------------------

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
    # Whether the service-group driver declares the host down; NULL: it does not.
    Column("declared_down", Boolean),
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
    # NULL until the agent reports the abilities of its driver.
    Column("abilities", JSON(none_as_null=True)),
    UniqueConstraint("host", "hypervisor_hostname"),
)

# Guard rows of NUMA cells: ``used`` is updated only if ``version`` still has the value that was read.
numa_cells = _table(
    "numa_cells",
    Column("node_uuid", String(36), primary_key=True),
    Column("cell", Integer, primary_key=True, autoincrement=False),
    Column("facts", _Json, nullable=False),
    Column("used", _Json, nullable=False),
    Column("version", BigInteger, nullable=False),
)

# Guard rows of PCI pools: ``used`` must not exceed ``total``.
pci_pools = _table(
    "pci_pools",
    Column("node_uuid", String(36), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("facts", _Json, nullable=False),
    Column("total", Integer, nullable=False),
    Column("used", Integer, nullable=False),
)

# The NUMA cells and PCI devices that each server uses on its hypervisor.
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

#: Version number of the isolation rules: one row, which the first isolation rule inserts. A claim compares the number
#: with that of its scheduling decision, to detect that the rules, or the hosts to which they apply, have changed.
isolation_version = _table(
    "isolation_version",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
)

# --- flavors, quotas, key pairs and server groups ---------------------------------------------------------------------

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

# Quota usage and limits: a row for each project (``user_id`` is ""), and one for each user who has separate limits in a
# project. ``ram`` is in MiB. ``limits``: resource → limit, only limits that are set for this project or user.
quotas = _table(
    "quotas",
    Column("project_id", String(255), primary_key=True),
    Column("user_id", String(255), primary_key=True),
    Column("instances", BigInteger, nullable=False),
    Column("cores", BigInteger, nullable=False),
    Column("ram", BigInteger, nullable=False),
    Column("limits", _Json, nullable=False),
)

# Default quota limits, for resources that a project has no limit for. Only the class "default" has an effect.
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
    # Guard of the affinity policy: the one host of all members, NULL for an empty group.
    Column("host", String(255)),
    *_times(),
)

server_group_members = _table(
    "server_group_members",
    Column("group_id", ForeignKey("server_groups.id"), primary_key=True),
    Column("instance_uuid", String(36), primary_key=True, index=True),
)

# Guard rows of the group policies: the number of members on each host.
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
    # Servers of one request share a request spec, until a later change gives one of them its own copy.
    Column("request_spec_uuid", String(36), index=True),
    # For a shelved server: the image to unshelve it from, and the time of the shelving.
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

# Networks of servers: the networks requested for a new server, and its interfaces as last seen at the network service.
instance_networks = _table(
    "instance_networks",
    Column("instance_uuid", ForeignKey("instances.uuid"), primary_key=True),
    Column("request", _Json, nullable=False),
    Column("info", _Json, nullable=False),
    Column("updated_at", Time, nullable=False, index=True),
)

# Addresses of servers' interfaces, for searches by address.
instance_addresses = _table(
    "instance_addresses",
    Column("instance_uuid", ForeignKey("instances.uuid"), primary_key=True),
    Column("address", String(45), primary_key=True, index=True),
    Column("version", Integer, nullable=False),
)

# The last event of each kind about each port of a server, for workflows that wait for it.
network_events = _table(
    "network_events",
    Column("instance_uuid", ForeignKey("instances.uuid"), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("tag", String(255), primary_key=True),
    Column("status", String(16), nullable=False),
    Column("received_at", Time, nullable=False),
)

# Administrator passwords of servers, encrypted with the servers' public keys.
server_passwords = _table(
    "server_passwords",
    Column("instance_uuid", ForeignKey("instances.uuid"), primary_key=True),
    Column("encrypted", String(2048), nullable=False),
)

# Console tokens, stored as hashes. The holder of a token may use the server's console until the token expires.
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

# Request specs: the create requests of servers. One row for all servers of a request, deleted with the last of them.
request_specs = _table(
    "request_specs",
    Column("uuid", String(36), primary_key=True),
    Column("request_id", String(64), nullable=False),
    Column("user_data", _Long),
    Column("body", _Json, nullable=False),
)

# Instance actions: one row for each operation that a request starts on a server, written when the operation starts.
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
    # "Error" if the action has failed for good; NULL otherwise, also while a failed step may still be retried.
    Column("message", String(255)),
    Index("ix_instance_actions_instance", "instance_uuid", "request_id"),
)

# Steps of instance actions. ``details`` is shown to the owner of the server, ``traceback`` to administrators.
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

# One row for each move of a server between hosts. During the move, ``uuid`` is the consumer of the allocations on the
# source host.
server_migrations = _table(
    "server_migrations",
    _key(),
    Column("uuid", String(36), nullable=False, unique=True),
    Column("instance_uuid", String(36), nullable=False, index=True),
    # One of: resize, migration, live-migration, evacuation.
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
    # Progress of a live migration in bytes: total, processed and remaining, for memory and for disk.
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
    # The control process that runs the workflow as long as the process has a lease (``processes``).
    Column("owner", String(36), nullable=False, index=True),
    # True from the moment another control process hands the workflow over or changes it, until its owner reloads it.
    Column("handed_over", Boolean, nullable=False, default=False),
    *_times(),
    # The batch workflow of the whole request, which decides when this workflow continues. The column keeps its value
    # after the batch workflow has ended, when no row has that uuid any more.
    Column("batch_uuid", String(36), index=True),
    # Optimistic lock: every update increments it and requires the version that was read.
    Column("version", Integer, nullable=False, default=0),
    Column("undoing", Boolean, nullable=False, default=False),
    Column("failure", JSON(none_as_null=True)),
    # A requested interrupt, such as a delete: the workflow rolls back or finishes early, depending on the kind.
    Column("interrupt", String(32)),
    Column("tries", Integer, nullable=False, default=0),
    # True if the workflow has used up its retries and waits for an operator.
    Column("stuck", Boolean, nullable=False, default=False),
    # True while the workflow waits for other workflows of its instance to end before it starts.
    Column("waiting", Boolean, nullable=False, default=False),
    # The absent host without which the step can be neither done nor undone, and the start of the wait for that host.
    Column("awaited_host", String(255)),
    Column("awaited_since", Time),
    # The requested interrupt if the release before does not know it; ``interrupt`` is then the most similar one.
    Column("exact_interrupt", String(32)),
)

# Leases of control processes and of sessions of agent processes. ``host_agents`` maps each host to the process with its
# agent.
processes = _table(
    "processes",
    Column("uuid", String(36), primary_key=True),
    # End of the lease: until then the process may act for its hosts and keeps its workflows.
    Column("lease_until", Time, nullable=False),
    Column("last_seen_at", Time, nullable=False),
    # Whether the services of the process count as up. Changes of this value are written to the change log.
    Column("up", Boolean, nullable=False),
    # The machine that the process runs on; empty if not reported.
    Column("machine", String(255), nullable=False),
    # The name of an agent process connected through the broker; NULL for other processes.
    Column("agent", String(255)),
    Column("release_version", String(64)),
    Column("message_version", Integer),
    # Start of the process; NULL if its release did not record it.
    Column("started_at", Time),
)

host_agents = _table(
    "host_agents",
    Column("host", String(255), primary_key=True),
    Column("process", String(36), nullable=False, index=True),
)

# Pending removals: guests to remove from hosts that were unreachable when the guest had to leave.
# ``departure``: a ``RemovalReason``.
departures = _table(
    "departures",
    Column("host", String(255), primary_key=True),
    Column("instance_uuid", String(36), primary_key=True, index=True),
    Column("departure", String(16), nullable=False),
    Column("created_at", Time, nullable=False),
)

# Pending rollbacks: guests to restore to their state before a move, on hosts unreachable when the move was rolled back.
homecomings = _table(
    "homecomings",
    Column("host", String(255), primary_key=True),
    Column("instance_uuid", String(36), ForeignKey("instances.uuid"), primary_key=True, index=True),
    Column("drops_made", Boolean, nullable=False),
    Column("runs", Boolean, nullable=False),
    Column("created_at", Time, nullable=False),
)

# Stray guests: differences between the last report of a host and the database. ``oddity``: a ``StrayKind``.
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

# Enrolled agent processes. ``name``: the user name at the broker. ``version``: number of the row's last change; one
# sequence numbers the changes of all rows.
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

# Keys for the signatures of image data tickets; new tickets are signed with the newest key.
ticket_keys = _table(
    "ticket_keys",
    _key(),
    Column("secret", String(64), nullable=False),
    Column("created_at", Time, nullable=False),
)

# Images that Kilonova registered and no longer needs: to be deleted when the image service is reachable.
unwanted_images = _table(
    "unwanted_images",
    Column("image_id", String(36), primary_key=True),
    Column("created_at", Time, nullable=False),
)

# Cloud-wide switches that operators set at run time: a switch is on while it has a row.
switches = _table(
    "switches",
    Column("name", String(64), primary_key=True),
    Column("reason", String(255), nullable=False),
    Column("created_at", Time, nullable=False),
)

#: Progress of the usage notifications of a period. ``after_id``: id of the last instance handled. ``servers``: number
#: of instances handled.
usage_audits = _table(
    "usage_audits",
    Column("period_beginning", Time, primary_key=True),
    Column("period_ending", Time, primary_key=True),
    Column("after_id", Integer, nullable=False),
    Column("servers", Integer, nullable=False),
    Column("finished_at", Time),
)

# Periodic tasks that one control process runs for the whole cloud. ``owner``: the process that runs the task now; NULL
# between two runs. ``seen_at``: when the owner last said that it runs the task. ``result``: of the last complete run.
shared_tasks = _table(
    "shared_tasks",
    Column("name", String(64), primary_key=True),
    Column("owner", String(36)),
    Column("seen_at", Time),
    Column("finished_at", Time),
    Column("result", JSON(none_as_null=True)),
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

# Inputs of the scheduling decision of a request, kept for a replay: one row for all servers of the request.
circumstances = _table(
    "circumstances",
    Column("uuid", String(36), primary_key=True),
    Column("created_at", Time, nullable=False),
    Column("body", _Blob, nullable=False),
)

# Checkpoints: the whole state of the mirrors after commit ``seq``. A checkpoint without a seq is incomplete.
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

# Rosters: the host names of decisions; ``decisions.removed_by`` has one byte for each name. Decisions with the same
# hosts share a roster.
rosters = _table(
    "rosters",
    Column("digest", String(40), primary_key=True),
    Column("created_at", Time, nullable=False),
    Column("names", _Blob, nullable=False),
)

# Jobs: long computations for operators, each in a process of its own. ``state``: a ``JobState``. ``parameters``: as
# requested; ``prepared``: as the job needs them. ``result``: compressed JSON of a job that is done.
jobs = _table(
    "jobs",
    _key(),
    Column("uuid", String(36), nullable=False, unique=True),
    Column("kind", String(64), nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("project_id", String(255), nullable=False),
    Column("user_id", String(255), nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("parameters", _Json, nullable=False),
    Column("prepared", _Json, nullable=False),
    Column("progress", Double, nullable=False),
    Column("message", String(255), nullable=False),
    # The control process that runs the job, and how often a process has begun it.
    Column("owner", String(36)),
    Column("attempt", Integer, nullable=False),
    Column("is_cancelled", Boolean, nullable=False),
    Column("failure", String(1000)),
    Column("result", _Blob),
    Column("created_at", Time, nullable=False),
    Column("started_at", Time),
    Column("finished_at", Time),
)

# Saved plans of moves. ``kind``: a ``PlanKind``. ``request``: what the plan was computed from, to compute it again.
# ``stays``: the servers that the plan does not move, with the reasons. ``seq``: change that the plan is based on.
plans = _table(
    "plans",
    _key(),
    Column("uuid", String(36), nullable=False, unique=True),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("project_id", String(255), nullable=False),
    Column("user_id", String(255), nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("request", _Json, nullable=False),
    Column("stays", _Json, nullable=False),
    Column("seq", BigInteger, nullable=False),
    # The control process that applies the plan, and how often the rest of the plan was computed again.
    Column("owner", String(36)),
    Column("replans", Integer, nullable=False),
    # The job that computes the rest of the plan again.
    Column("job_uuid", String(36)),
    Column("message", String(1000), nullable=False),
    Column("created_at", Time, nullable=False),
    Column("started_at", Time),
    Column("finished_at", Time),
)

# Moves of saved plans. ``kind``: a ``MoveKind``. ``state``: a ``MoveState``. ``migration_uuid`` and ``request_id`` are
# those of a move that has begun.
plan_moves = _table(
    "plan_moves",
    _key(),
    Column("plan_uuid", String(36), nullable=False),
    Column("wave", Integer, nullable=False),
    Column("server_uuid", String(36), nullable=False),
    Column("server_name", String(255), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("source_host", String(255), nullable=False),
    Column("dest_host", String(255)),
    Column("gib", Double, nullable=False),
    Column("state", String(16), nullable=False),
    Column("migration_uuid", String(36)),
    Column("request_id", String(64)),
    Column("reason", String(1000)),
    Column("started_at", Time),
    Column("finished_at", Time),
    Index("ix_plan_moves_plan_uuid_state", "plan_uuid", "state"),
)
