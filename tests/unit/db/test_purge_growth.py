# SPDX-License-Identifier: Apache-2.0
"""No table grows for ever: each is purged, or something else keeps it small."""

from kilonova.db import purge
from kilonova.db.core import tables as t

#: Beside the tables that a purge empties of what it keeps about servers.
PURGED = {"instances", "request_specs", "circumstances", "quotas", "departures", "odd_guests"}
#: Table → what keeps it small without a purge.
BOUNDED = {
    **dict.fromkeys(
        ["change_counter", "isolation_version", "shared_tasks", "switches"], "a row for each thing that there is one of"
    ),
    "change_log": "cut when it is checked: a process that is further behind starts anew",
    **dict.fromkeys(["decisions", "rosters"], "[operator] decision_retention"),
    **dict.fromkeys(["checkpoints", "checkpoint_parts"], "[operator] checkpoints_kept"),
    **dict.fromkeys(
        ["services", "compute_nodes", "numa_cells", "pci_pools", "host_agents", "enrolled_hosts", "enrolled_agents"],
        "hosts and agents that operators have added",
    ),
    "processes": "forgotten some leases after their end",
    "ticket_keys": "replaced ones are dropped after thirty days",
    **dict.fromkeys(
        [
            *("aggregates", "aggregate_hosts", "aggregate_metadata", "quota_classes"),
            *("flavors", "flavor_extra_specs", "flavor_projects"),
        ],
        "what administrators have made",
    ),
    **dict.fromkeys(
        [
            *("resource_classes", "traits", "resource_providers", "inventories", "placement_aggregates"),
            *("resource_provider_aggregates", "resource_provider_traits"),
        ],
        "what services and administrators have made in Placement",
    ),
    **dict.fromkeys(["consumers", "allocations", "device_shares"], "gone with what they are for"),
    **dict.fromkeys(["keypairs", "server_groups", "server_group_hosts"], "quotas of users and projects"),
    "workflows": "gone when they have ended",
    "jobs": "[operator] max_jobs, jobs_kept and jobs_kept_days",
    **dict.fromkeys(["plans", "plan_moves"], "MOST_PLANS of db/plans.py"),
    "usage_audits": "those of long ago are dropped when another one begins",
    "unwanted_images": "gone when the image is",
}


def test_every_table_is_purged_or_bounded() -> None:
    purged = {column.table.name for column in purge._columns_of_servers()} | PURGED
    unknown = {table.name for table in t.metadata.sorted_tables} - purged - BOUNDED.keys()
    assert unknown == set(), "have db/purge.py purge these, or say here what keeps them small"
    assert BOUNDED.keys() <= {table.name for table in t.metadata.sorted_tables}


def test_what_is_kept_by_the_uuid_of_a_server_is_purged_or_ends_with_it() -> None:
    """A new table about servers that has no foreign key is noticed, too."""
    purged = {column.table.name for column in purge._columns_of_servers()} | PURGED
    about = {table.name for table in t.metadata.sorted_tables if "instance_uuid" in table.c}
    assert about - purged == {"device_shares", "workflows"}
