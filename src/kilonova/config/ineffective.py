# SPDX-License-Identifier: Apache-2.0
"""Options of nova.conf that Kilonova accepts although they have no effect on it, each with the reason."""

from collections.abc import Mapping

from oslo_config import cfg

_COUNTED = "quota is counted in the transaction that stores a server."
_REMOVED = "Nova removed it, too."
_QUORUM = "queues are always durable quorum queues."
_ONE = "each process has one connection."
_STATIC = "vendor data come from vendordata_jsonfile_path only."
_QUOTAS = "see docs/quotas.md."
_PROCESSES = "each control process is API, scheduler and conductor; [DEFAULT] osapi_compute_workers sets their number."
_EXACT = "the scheduler always knows exactly which servers are on a host, so there is nothing to synchronize."
_TRACKED = (
    "the scheduler always knows exactly which servers are on a host, from the change log of its database. "
    "Hosts send no instance updates that could be turned off, and no filter queries the database for each request."
)
_METADATA = "control processes serve metadata with the other APIs."
_DEFAULT_NETWORKS = "/os-tenant-networks lists the networks that the caller can see."
_SPICE = "this release has no SPICE console proxy."
_RETRIED = "the guest of a deleted server is removed as soon as its host is reachable, see docs/failures.md."

#: Group → options without effect. The help of an option gives the reason.
INEFFECTIVE: Mapping[str, tuple[cfg.Opt, ...]] = {
    "DEFAULT": (
        cfg.StrOpt("scheduler_host_manager", help=_REMOVED),
        cfg.StrOpt("scheduler_json_config_location", help=_REMOVED),
        cfg.IntOpt("scheduler_instance_sync_interval", default=120, help=_EXACT),
        cfg.IntOpt("volume_usage_poll_interval", default=0, help="there is no volume service."),
        cfg.IntOpt("instance_delete_interval", default=300, help=_RETRIED),
        cfg.IntOpt("maximum_instance_delete_attempts", default=5, help=_RETRIED),
        cfg.IntOpt("metadata_workers", min=1, help=_METADATA),
        cfg.IntOpt(
            "periodic_fuzzy_delay", default=60, help="periodic tasks of different processes do not delay each other."
        ),
    ),
    "conductor": (cfg.IntOpt("workers", min=1, help=_PROCESSES),),
    "api": (
        cfg.ListOpt("vendordata_providers", default=["StaticJSON"], help=_STATIC),
        cfg.ListOpt("vendordata_dynamic_targets", default=[], help=_STATIC),
        cfg.StrOpt("config_drive_skip_versions", help="config drives have only the newest EC2 version."),
        cfg.BoolOpt("use_neutron_default_nets", default=False, help=_DEFAULT_NETWORKS),
        cfg.StrOpt("neutron_default_project_id", default="default", help=_DEFAULT_NETWORKS),
    ),
    "scheduler": (
        cfg.IntOpt("max_placement_results", default=1000, min=1, help="a scheduling decision considers every host."),
        cfg.IntOpt("workers", min=0, help=_PROCESSES),
        cfg.IntOpt("discover_hosts_in_cells_interval", default=-1, min=-1, help="a host exists as soon as it reports."),
    ),
    "filter_scheduler": (
        cfg.BoolOpt("track_instance_changes", default=True, help=_TRACKED),
        cfg.BoolOpt("pci_in_placement", default=False, help="PCI devices are counted in pools outside Placement."),
    ),
    "quota": (
        cfg.BoolOpt("recheck_quota", default=True, help=_COUNTED),
        cfg.BoolOpt("count_usage_from_placement", default=False, help=_COUNTED),
        cfg.StrOpt("unified_limits_resource_strategy", default="require", help=_QUOTAS),
        cfg.ListOpt("unified_limits_resource_list", default=["servers"], help=_QUOTAS),
    ),
    "oslo_messaging_rabbit": (
        cfg.BoolOpt("rabbit_quorum_queue", default=True, help=_QUORUM),
        cfg.BoolOpt("rabbit_transient_quorum_queue", default=False, help=_QUORUM),
        cfg.BoolOpt("rabbit_ha_queues", default=False, help=_QUORUM),
        cfg.BoolOpt("amqp_durable_queues", default=True, help=_QUORUM),
        cfg.IntOpt("rabbit_qos_prefetch_count", help="the prefetch count is fixed."),
        cfg.IntOpt(
            "rabbit_transient_queues_ttl", help="the reply queue of a process expires a minute after the process."
        ),
        cfg.IntOpt("heartbeat_rate", help="heartbeats are checked every second."),
        cfg.BoolOpt("heartbeat_in_pthread", help="heartbeats always run in a native thread."),
        cfg.IntOpt("rpc_conn_pool_size", help=_ONE),
        cfg.IntOpt("conn_pool_min_size", help=_ONE),
        cfg.IntOpt("conn_pool_ttl", help=_ONE),
        cfg.FloatOpt("kombu_reconnect_delay", help="see rabbit_retry_interval."),
        cfg.StrOpt("kombu_compression", help="messages are small."),
        cfg.BoolOpt("direct_mandatory_flag", help="undeliverable messages are always detected."),
        cfg.BoolOpt(
            "enable_cancel_on_failover", help="consumers always resume when a queue moves to another broker node."
        ),
        cfg.BoolOpt("use_queue_manager", help="queues have fixed names, see docs/configuration.md."),
        cfg.BoolOpt("rabbit_stream_fanout", help="there are no broadcasts."),
    ),
    "spice": (
        cfg.StrOpt("html5proxy_host", default="0.0.0.0", help=_SPICE),  # noqa: S104 - Nova's default
        cfg.PortOpt("html5proxy_port", default=6082, help=_SPICE),
    ),
    "cinder": (cfg.BoolOpt("cross_az_attach", default=True, help="there is no volume service."),),
    "workarounds": (
        cfg.BoolOpt(
            "disable_group_policy_check_upcall",
            default=False,
            help="group policies are checked by the claim, never later by a host.",
        ),
    ),
}


def without_effect(group: str, name: str) -> str | None:
    """Return the reason why an option has no effect, or None if it has an effect."""
    found = next((option for option in INEFFECTIVE.get(group, ()) if option.name == name), None)
    return None if found is None else str(found.help)
