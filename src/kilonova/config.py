# SPDX-License-Identifier: Apache-2.0
"""Settings: oslo.config files read once in ``cli/`` into frozen dataclasses that are handed down.

Names and defaults are those operators know from nova.conf; what is new says so in its help text.
"""

import dataclasses
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from oslo_config import cfg

from kilonova.errors import ConfigurationError
from kilonova.logs.rotation import LogFile
from kilonova.model.quota import NO_LIMITS, Limits
from kilonova.placement.search_budget import DEFAULT_STEPS
from kilonova.scheduler.devices.pci_request import read_aliases
from kilonova.scheduler.settings import SchedulerConfig, weight_setting

LOG = logging.getLogger(__name__)
DEFAULT_BIND = "127.0.0.1:8774"
#: Owner of consumers whose allocations were written before microversion 1.8, which names none.
NO_OWNER = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class ApiSettings:
    auth_strategy: str = "keystone"
    bind_host: str = "127.0.0.1"
    bind_port: int = 8774
    max_limit: int = 1000
    max_servers_per_request: int = 1000
    max_query_length: int = 32_768
    max_query_parameters: int = 1000
    max_hints_size: int = 16_384
    enable_instance_password: bool = True
    threads: int = 16
    request_timeout_s: float | None = 60.0
    header_timeout_s: float = 10.0
    body_timeout_s: float = 20.0
    idle_timeout_s: float = 75.0
    max_connections: int = 8000
    cert_file: str | None = None
    key_file: str | None = None
    use_forwarded_for: bool = False
    noauth2_beyond_loopback: bool = False


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """The largest body of a request to each API, in bytes."""

    compute: int = 114_688
    placement: int = 16 * 1024 * 1024
    operator: int = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FakeSettings:
    """The simulated hosts of this process. ``scenario`` shapes them; without one they are ``node1`` … ``nodeN``."""

    hosts: int = 0
    state_dir: Path | None = None
    scenario: Path | None = None


@dataclass(frozen=True, slots=True)
class ComputeSettings:
    """Units: seconds where the name ends in ``_s``."""

    service_down_time_s: int = 60
    report_interval_s: int = 10
    default_availability_zone: str = "nova"
    default_schedule_zone: str | None = None
    internal_service_availability_zone: str = "internal"
    initial_cpu_allocation_ratio: float = 4.0
    initial_ram_allocation_ratio: float = 1.0
    initial_disk_allocation_ratio: float = 1.0
    cpu_allocation_ratio: float | None = None
    ram_allocation_ratio: float | None = None
    disk_allocation_ratio: float | None = None
    reserved_host_memory_mib: int = 512
    allow_resize_to_same_host: bool = False


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """How Placement answers. ``max_allocation_candidates`` -1: any number of candidates is generated.

    ``max_search_steps``: 0: any number.
    """

    randomize_allocation_candidates: bool = False
    max_allocation_candidates: int = -1
    max_search_steps: int = DEFAULT_STEPS
    allocation_candidates_generation_strategy: str = "depth-first"
    incomplete_consumer_project_id: str = NO_OWNER
    incomplete_consumer_user_id: str = NO_OWNER


DB_QUOTAS, NO_QUOTAS, UNIFIED_LIMITS = (
    f"nova.quota.{name}" for name in ("DbQuotaDriver", "NoopQuotaDriver", "UnifiedLimitsDriver")
)


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """The limits where nobody has set others, and who has the limits. -1: none. Units: ``ram`` in MiB."""

    driver: str = DB_QUOTAS
    instances: int = 10
    cores: int = 20
    ram: int = 50 * 1024
    metadata_items: int = 128
    injected_files: int = 5
    injected_file_content_bytes: int = 10 * 1024
    injected_file_path_length: int = 255
    key_pairs: int = 100
    server_groups: int = 10
    server_group_members: int = 10

    def limits(self) -> Limits:
        """Return the limit of every resource."""
        known = {name: getattr(self, name) for name in NO_LIMITS if hasattr(self, name)}
        return {**NO_LIMITS, **known, "injected_file_path_bytes": self.injected_file_path_length}


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """Where metrics are served without a token. ``metrics_port`` 0: nowhere."""

    metrics_host: str = "127.0.0.1"
    metrics_port: int = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a control process was told. ``conf`` is for libraries that read oslo.config themselves."""

    database_url: str
    database_response_timeout_s: float = 3.0
    api: ApiSettings = field(default_factory=ApiSettings)
    bodies: BodyLimits = field(default_factory=BodyLimits)
    fake: FakeSettings = field(default_factory=FakeSettings)
    compute: ComputeSettings = field(default_factory=ComputeSettings)
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    placement: PlacementSettings = field(default_factory=PlacementSettings)
    quota: QuotaSettings = field(default_factory=QuotaSettings)
    prometheus: PrometheusSettings = field(default_factory=PrometheusSettings)
    glance_endpoint: str | None = None
    debug: bool = False
    log_file: LogFile | None = None
    decision_retention: int = 10_000
    checkpoints_kept: int = 4
    lease_s: float = 60.0
    #: [DEFAULT] rpc_response_timeout: when an agent that has not replied is asked how far it is.
    response_timeout_s: float = 60.0
    purge_deleted_after_days: int = 0
    conf: Any = None


_REMOVED = "Has no effect: Nova removed it, too."
_NOT_NEEDED = "Accepted and without effect: "

_OPTIONS: Mapping[str, Sequence[cfg.Opt]] = {
    "DEFAULT": (
        cfg.BoolOpt("debug", default=False, help="Log every rule's survivors and more."),
        cfg.StrOpt("log_file", help="File to log to, below log_dir; without it the log goes to standard error."),
        cfg.StrOpt("log_dir", help="Folder of log_file."),
        cfg.StrOpt(
            "log_rotation_type", default="none", choices=["none", "size"], help="Whether log_file is rotated by size."
        ),
        cfg.IntOpt("max_logfile_size_mb", default=200, min=1, help="Size at which log_file is rotated, in MiB."),
        cfg.IntOpt("max_logfile_count", default=30, min=1, help="Rotated log files that are kept."),
        cfg.IntOpt("service_down_time", default=60, min=1, help="Seconds after which a silent service counts as down."),
        cfg.IntOpt("report_interval", default=10, min=1, help="Seconds between two heartbeats of an agent."),
        cfg.IntOpt(
            "rpc_response_timeout",
            default=60,
            min=1,
            help="Seconds after which an agent that has not replied to a step of an operation is asked how far it is. "
            "One that leaves five such questions without an answer counts as unreachable.",
        ),
        cfg.StrOpt("default_availability_zone", default="nova", help="Zone shown for hosts in no zone."),
        cfg.StrOpt("default_schedule_zone", help="Zone used when a request names none."),
        cfg.StrOpt("internal_service_availability_zone", default="internal"),
        cfg.FloatOpt("initial_cpu_allocation_ratio", default=4.0, min=0.0),
        cfg.FloatOpt("initial_ram_allocation_ratio", default=1.0, min=0.0),
        cfg.FloatOpt("initial_disk_allocation_ratio", default=1.0, min=0.0),
        cfg.FloatOpt("cpu_allocation_ratio", min=0.0),
        cfg.FloatOpt("ram_allocation_ratio", min=0.0),
        cfg.FloatOpt("disk_allocation_ratio", min=0.0),
        cfg.IntOpt("reserved_host_memory_mb", default=512, min=0),
        cfg.BoolOpt(
            "allow_resize_to_same_host",
            default=False,
            help="Whether a resize may leave a server on the host where it is, if that has room.",
        ),
        cfg.StrOpt("scheduler_host_manager", help=_REMOVED),
        cfg.StrOpt("scheduler_json_config_location", help=_REMOVED),
    ),
    "api": (
        cfg.StrOpt("auth_strategy", default="keystone", choices=["keystone", "noauth2"]),
        cfg.StrOpt("bind", default=DEFAULT_BIND, help="HOST:PORT to listen on (Kilonova's own)."),
        cfg.IntOpt("max_limit", default=1000, min=1, help="Most items in one answer of a list."),
        cfg.IntOpt(
            "max_servers_per_request", default=1000, min=1, help="Most servers of one request (Kilonova's own)."
        ),
        cfg.IntOpt("max_query_length", default=32_768, min=1, help="Longest query string in bytes (Kilonova's own)."),
        cfg.IntOpt("max_query_parameters", default=1000, min=1, help="Most parameters of one query (Kilonova's own)."),
        cfg.IntOpt(
            "max_hints_size", default=16_384, min=2, help="Most bytes of all scheduler hints as JSON (Kilonova's own)."
        ),
        cfg.BoolOpt("enable_instance_password", default=True),
        cfg.BoolOpt(
            "use_forwarded_for",
            default=False,
            help="Take the caller's address from X-Forwarded-For. Only behind a proxy that sets it.",
        ),
        cfg.BoolOpt(
            "noauth2_beyond_loopback",
            default=False,
            help="Let noauth2, which makes anybody an administrator, listen where other machines reach it "
            "(Kilonova's own).",
        ),
        cfg.IntOpt("threads", default=16, min=1, max=64, help="Requests handled at once (Kilonova's own)."),
        cfg.FloatOpt(
            "request_timeout",
            default=60.0,
            min=0.0,
            help="Seconds after which a GET is given up with 503; 0: never (Kilonova's own).",
        ),
        cfg.FloatOpt(
            "header_timeout", default=10.0, min=0.1, help="Seconds for all headers of a request (Kilonova's own)."
        ),
        cfg.FloatOpt(
            "body_timeout",
            default=20.0,
            min=0.1,
            help="Seconds for a body, and one more for each 64 KiB of it (Kilonova's own).",
        ),
        cfg.FloatOpt(
            "idle_timeout", default=75.0, min=0.1, help="Seconds that a connection waits for requests (Kilonova's own)."
        ),
        cfg.IntOpt("max_connections", default=8000, min=16, help="Connections at once (Kilonova's own)."),
        cfg.StrOpt("cert_file", help="Certificate, with its chain, to serve HTTPS with (Kilonova's own)."),
        cfg.StrOpt("key_file", help="Key of cert_file, unless it is in the same file (Kilonova's own)."),
    ),
    "oslo_middleware": (
        cfg.IntOpt(
            "max_request_body_size", default=114_688, min=1, help="Largest body of a compute API request, in bytes."
        ),
    ),
    "database": (
        cfg.StrOpt("connection", secret=True, help="sqlite:///FILE, postgresql://… or mysql://…"),
        cfg.FloatOpt(
            "response_timeout",
            default=3.0,
            min=0.1,
            help="Seconds in which a database server says nothing to anybody, after which it counts as hung: requests "
            "are refused with 503 until it answers again (Kilonova's own).",
        ),
    ),
    "placement": (
        cfg.IntOpt(
            "max_request_body_size",
            default=16 * 1024 * 1024,
            min=1,
            help="Largest body of a Placement request, in bytes (Kilonova's own).",
        ),
        cfg.BoolOpt("randomize_allocation_candidates", default=False, help="A random choice in random order."),
        cfg.IntOpt("max_allocation_candidates", default=-1, min=-1, help="Most candidates generated; -1: no limit."),
        cfg.IntOpt(
            "max_search_steps",
            default=DEFAULT_STEPS,
            min=0,
            help="Steps after which a search for allocation candidates is refused; 0: no limit (Kilonova's own).",
        ),
        cfg.StrOpt(
            "allocation_candidates_generation_strategy",
            default="depth-first",
            choices=["depth-first", "breadth-first"],
            help="All candidates of one root before the next, or one of each root in turn.",
        ),
        cfg.StrOpt("incomplete_consumer_project_id", default=NO_OWNER),
        cfg.StrOpt("incomplete_consumer_user_id", default=NO_OWNER),
    ),
    "quota": (
        cfg.StrOpt(
            "driver",
            default=DB_QUOTAS,
            choices=[DB_QUOTAS, NO_QUOTAS, UNIFIED_LIMITS],
            help="Who has the limits: this cloud's database, nobody (nothing is limited), or Keystone.",
        ),
        *(
            cfg.IntOpt(
                item.name,
                default=item.default,
                min=-1,
                help="Limit where no other has been set; -1: none.",
                deprecated_opts=[cfg.DeprecatedOpt(f"quota_{item.name}", group="DEFAULT")],
            )
            for item in dataclasses.fields(QuotaSettings)
            if item.type is int
        ),
        cfg.BoolOpt("recheck_quota", default=True, help=_NOT_NEEDED + "servers are counted when they are stored."),
        cfg.BoolOpt(
            "count_usage_from_placement", default=False, help=_NOT_NEEDED + "servers are counted when they are stored."
        ),
        cfg.StrOpt("unified_limits_resource_strategy", default="require", help=_NOT_NEEDED + "see docs/quotas.md."),
        cfg.ListOpt("unified_limits_resource_list", default=["servers"], help=_NOT_NEEDED + "see docs/quotas.md."),
    ),
    "keystone": (
        cfg.StrOpt("endpoint_override", help="URL of Keystone; unset: [keystone_authtoken] auth_url."),
        cfg.StrOpt("cafile", help="File of the authorities that vouch for Keystone's certificate."),
        cfg.BoolOpt("insecure", default=False, help="Do not check Keystone's certificate."),
    ),
    "glance": (cfg.StrOpt("endpoint_override", help="URL of the image service."),),
    "fake": (
        cfg.IntOpt("hosts", default=0, min=0, help="Simulated hosts in this process (Kilonova's own)."),
        cfg.StrOpt("state_dir", help="Where simulated hypervisors keep their guests."),
        cfg.StrOpt("scenario", help="YAML file that names and shapes the hosts."),
    ),
    "scheduler": (
        cfg.IntOpt("max_placement_results", default=1000, min=1, help=_NOT_NEEDED + "a decision looks at every host."),
        cfg.IntOpt("workers", min=0, help=_NOT_NEEDED + "decisions are made where requests arrive."),
        cfg.IntOpt(
            "discover_hosts_in_cells_interval",
            default=-1,
            min=-1,
            help=_NOT_NEEDED + "hosts are there as soon as they report.",
        ),
    ),
    "filter_scheduler": (
        cfg.BoolOpt(
            "track_instance_changes", default=True, help=_NOT_NEEDED + "what is on a host is always known exactly."
        ),
        cfg.BoolOpt("pci_in_placement", default=False, help="Has no effect: PCI devices are no providers here."),
    ),
    "compute": (
        cfg.IntOpt(
            "consecutive_build_service_disable_threshold",
            default=10,
            help=_NOT_NEEDED + "failed builds always count for BuildFailureWeigher.",
        ),
    ),
    "cinder": (cfg.BoolOpt("cross_az_attach", default=True, help=_NOT_NEEDED + "there is no volume service."),),
    "workarounds": (
        cfg.BoolOpt(
            "disable_group_policy_check_upcall",
            default=False,
            help=_NOT_NEEDED + "group policies are part of the claim, no host checks them later.",
        ),
        cfg.BoolOpt("disable_fallback_pcpu_query", default=False),
    ),
    "conductor": (
        cfg.FloatOpt(
            "lease_time",
            default=60.0,
            min=1.0,
            help="Seconds after which a silent control process counts as dead, and others take over its work. Not an "
            "option of Nova's.",
        ),
    ),
    "prometheus": (
        cfg.StrOpt(
            "metrics_host",
            default="127.0.0.1",
            help="Where metrics_port listens; whoever reaches it reads the metrics (Kilonova's own).",
        ),
        cfg.PortOpt(
            "metrics_port",
            default=0,
            help="Port that serves /metrics without a token; 0: none, they are at /operator/v1/metrics only "
            "(Kilonova's own).",
        ),
    ),
    "operator": (
        cfg.IntOpt(
            "max_request_body_size",
            default=1024 * 1024,
            min=1,
            help="Largest body of an operator API request, in bytes (Kilonova's own).",
        ),
        cfg.IntOpt(
            "purge_deleted_after_days",
            default=0,
            min=0,
            help="Remove servers for good so many days after they were deleted; 0: never (Kilonova's own).",
        ),
        cfg.IntOpt("decision_retention", default=10_000, min=0, help="Decisions kept for `kilonova explain`."),
        cfg.IntOpt(
            "checkpoints_kept", default=4, min=0, help="Checkpoints, one an hour, from which decisions are made again."
        ),
    ),
}

# Old names of options that the documents and old deployments use, by present (group, name).
_DEPRECATED: Mapping[tuple[str, str], tuple[tuple[str, str], ...]] = {
    ("filter_scheduler", "available_filters"): (("DEFAULT", "scheduler_available_filters"),),
    ("filter_scheduler", "enabled_filters"): (("DEFAULT", "scheduler_default_filters"),),
    ("filter_scheduler", "weight_classes"): (("DEFAULT", "scheduler_weight_classes"),),
    ("filter_scheduler", "host_subset_size"): (("DEFAULT", "scheduler_host_subset_size"),),
    ("scheduler", "max_attempts"): (("DEFAULT", "scheduler_max_attempts"),),
    ("pci", "alias"): (("DEFAULT", "pci_alias"),),
    ("scheduler", "driver"): (("DEFAULT", "scheduler_driver"),),
}
_GONE = ("scheduler_host_manager", "scheduler_json_config_location")
#: Options whose settings are named in a warning as soon as they are read.
RETIRED = frozenset({*(("DEFAULT", name) for name in _GONE), ("filter_scheduler", "pci_in_placement")})


class Configuration(cfg.ConfigOpts):  # type: ignore[misc]  # oslo.config has no types
    """The options of the files. Plug-ins add theirs, in sections named like their classes."""

    def __init__(self) -> None:
        super().__init__()
        self.of_plug_ins: list[tuple[str, cfg.Opt]] = []

    def options_of(self, plug_in: type[Any]) -> dict[str, Any]:
        """Return what section ``[ClassName]`` says of the fields of a dataclass; classes without fields have none.

        Raises: ConfigurationError, for a value that is not of the field's type.
        """
        if not dataclasses.is_dataclass(plug_in):
            return {}
        section, hints = plug_in.__name__, get_type_hints(plug_in)
        found = {}
        for item in dataclasses.fields(plug_in):
            if not item.init or item.name in _NO_OPTIONS or not _has_option_type(hints[item.name]):
                continue
            default = None if item.default is dataclasses.MISSING else item.default
            option = _option(item.name, hints[item.name], default, [])
            if self.register_opt(option, group=section):
                self.of_plug_ins.append((section, option))
            try:
                value = self[section][item.name]
            except ValueError as error:
                raise ConfigurationError(f"[{section}] {item.name}: {error}") from error
            if value is not None:
                found[item.name] = tuple(value) if isinstance(value, list) else value
        return found

    def share(self) -> None:
        """Let ``oslo_config.cfg.CONF``, where rules written for Nova look, say what the same files say."""
        _register(cfg.CONF)
        cfg.CONF.register_opt(cfg.StrOpt("compute_topic", default="compute"))  # which older drivers ask hosts_up about
        cfg.CONF([], project="kilonova", default_config_files=self.default_config_files, default_config_dirs=[])


def shared_conf() -> Any:
    """Return the options that the whole process shares, as rules written for Nova expect them to be."""
    return cfg.CONF


def _register(conf: Any) -> None:
    for group, options in _OPTIONS.items():
        conf.register_opts(options, group=None if group == "DEFAULT" else group)
    for name, option in _scheduler_options():
        conf.register_opt(option, group=name)


def load(files: Sequence[str]) -> Settings:
    """Read configuration files, later ones first. Raises: ConfigurationError naming the option."""
    conf = Configuration()
    _register(conf)
    try:
        conf([], project="kilonova", default_config_files=list(files), default_config_dirs=[])
        public_options(conf)  # a value is only checked when it is read, and not every option is needed
        return _settings(conf)
    except cfg.Error as error:
        raise ConfigurationError(str(error).strip()) from error


def _settings(conf: Any) -> Settings:
    if not conf.database.connection:
        raise ConfigurationError("[database] connection is not set.")
    host, port = split_bind(conf.api.bind, "[api] bind")
    try:
        return Settings(
            database_url=conf.database.connection,
            database_response_timeout_s=conf.database.response_timeout,
            api=ApiSettings(
                auth_strategy=conf.api.auth_strategy,
                bind_host=host,
                bind_port=port,
                max_limit=conf.api.max_limit,
                max_servers_per_request=conf.api.max_servers_per_request,
                max_query_length=conf.api.max_query_length,
                max_query_parameters=conf.api.max_query_parameters,
                max_hints_size=conf.api.max_hints_size,
                enable_instance_password=conf.api.enable_instance_password,
                threads=conf.api.threads,
                request_timeout_s=conf.api.request_timeout or None,
                use_forwarded_for=conf.api.use_forwarded_for,
                noauth2_beyond_loopback=conf.api.noauth2_beyond_loopback,
                header_timeout_s=conf.api.header_timeout,
                body_timeout_s=conf.api.body_timeout,
                idle_timeout_s=conf.api.idle_timeout,
                max_connections=conf.api.max_connections,
                cert_file=conf.api.cert_file,
                key_file=conf.api.key_file,
            ),
            bodies=BodyLimits(
                compute=conf.oslo_middleware.max_request_body_size,
                placement=conf.placement.max_request_body_size,
                operator=conf.operator.max_request_body_size,
            ),
            fake=FakeSettings(
                hosts=conf.fake.hosts,
                state_dir=Path(conf.fake.state_dir) if conf.fake.state_dir else None,
                scenario=Path(conf.fake.scenario) if conf.fake.scenario else None,
            ),
            compute=ComputeSettings(
                service_down_time_s=conf.service_down_time,
                report_interval_s=conf.report_interval,
                reserved_host_memory_mib=conf.reserved_host_memory_mb,
                **{
                    name: getattr(conf, name)
                    for name in (
                        "default_availability_zone",
                        "default_schedule_zone",
                        "internal_service_availability_zone",
                        "initial_cpu_allocation_ratio",
                        "initial_ram_allocation_ratio",
                        "initial_disk_allocation_ratio",
                        "cpu_allocation_ratio",
                        "ram_allocation_ratio",
                        "disk_allocation_ratio",
                        "allow_resize_to_same_host",
                    )
                },
            ),
            scheduler=_scheduler_settings(conf),
            placement=PlacementSettings(
                **{item.name: conf.placement[item.name] for item in dataclasses.fields(PlacementSettings)}
            ),
            quota=QuotaSettings(**{item.name: conf.quota[item.name] for item in dataclasses.fields(QuotaSettings)}),
            prometheus=PrometheusSettings(conf.prometheus.metrics_host, conf.prometheus.metrics_port),
            glance_endpoint=conf.glance.endpoint_override,
            debug=conf.debug,
            log_file=_log_file(conf),
            decision_retention=conf.operator.decision_retention,
            checkpoints_kept=conf.operator.checkpoints_kept,
            lease_s=conf.conductor.lease_time,
            response_timeout_s=conf.rpc_response_timeout,
            purge_deleted_after_days=conf.operator.purge_deleted_after_days,
            conf=conf,
        )
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def _log_file(conf: Any) -> LogFile | None:
    if not conf.log_file:
        return None
    max_bytes = conf.max_logfile_size_mb * 2**20 if conf.log_rotation_type == "size" else 0
    return LogFile(Path(conf.log_dir or ".") / conf.log_file, max_bytes, conf.max_logfile_count)


def scheduling_digest(config: SchedulerConfig) -> str:
    """Return what differs between two configurations of the scheduler that may decide differently."""
    text = json.dumps(dataclasses.asdict(config), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def public_options(conf: Any) -> dict[str, dict[str, Any]]:
    """Return group → option → value in force, of Kilonova's own options and its plug-ins', without the secret ones."""
    known = [(group, option) for group, options in _OPTIONS.items() for option in options]
    shown: dict[str, dict[str, Any]] = {}
    for group, option in (*known, *_scheduler_options(), *conf.of_plug_ins):
        if not option.secret:
            values = conf if group == "DEFAULT" else conf[group]
            shown.setdefault(group, {})[option.name] = values[option.dest]
    return shown


def former_names() -> frozenset[tuple[str, str]]:
    """Return (group, name) of options under the names that they had before."""
    return frozenset(place for places in _DEPRECATED.values() for place in places)


def without_effect(group: str, name: str) -> str | None:
    """Return why an option is accepted and does nothing, None for one that does something."""
    found = next((option for option in _OPTIONS.get(group, ()) if option.name == name), None)
    text = found.help or "" if found is not None else ""
    return text.removeprefix(_NOT_NEEDED) if text.startswith(_NOT_NEEDED) else None


def split_bind(text: str, name: str) -> tuple[str, int]:
    """Read ``HOST:PORT``. Raises: ConfigurationError naming ``name``."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise ConfigurationError(f"{name} must be HOST:PORT, not {text!r}.")
    return host.strip("[]"), int(port)


_IN_SCHEDULER = (
    "max_attempts",
    "limit_tenants_to_placement_aggregate",
    "placement_aggregate_required_for_tenants",
    "enable_isolated_aggregate_filtering",
    "query_placement_for_image_type_support",
    "query_placement_for_routed_network_aggregates",
    "image_metadata_prefilter",
    "driver",
    "driver_timeout",
    "request_filters",
    "plugin_path",
    "nova_import_compat",
)
#: Field of the scheduler's settings → its group and option, where that is not [filter_scheduler] and the same name.
_PLACES: Mapping[str, tuple[str, str]] = {
    **{name: ("scheduler", name) for name in _IN_SCHEDULER},
    "disable_fallback_pcpu_query": ("workarounds", "disable_fallback_pcpu_query"),
    "pci_alias": ("pci", "alias"),
    "metrics_weight_multiplier": ("metrics", "weight_multiplier"),
    "metrics_weight_setting": ("metrics", "weight_setting"),
    "metrics_required": ("metrics", "required"),
    "metrics_weight_of_unavailable": ("metrics", "weight_of_unavailable"),
}
_IN_DEFAULT = frozenset({"service_down_time", "default_availability_zone"})
_MULTI = frozenset({"available_filters", "weight_classes", "alias"})
_MINIMUM: Mapping[str, float] = {
    "host_subset_size": 1,
    "max_instances_per_host": 1,
    "max_attempts": 1,
    "driver_timeout": 0.1,
    "pci_weight_multiplier": 0.0,
    "soft_affinity_weight_multiplier": 0.0,
    "soft_anti_affinity_weight_multiplier": 0.0,
}
_PAIRS = ("metrics_weight_setting", "image_props_weight_setting")


def _place_of(name: str) -> tuple[str, str]:
    return _PLACES.get(name, ("filter_scheduler", name))


def _scheduler_options() -> list[tuple[str, cfg.Opt]]:
    """Return one option for each field of the scheduler's settings but those that are in [DEFAULT]."""
    hints = get_type_hints(SchedulerConfig)
    options = []
    for item in dataclasses.fields(SchedulerConfig):
        if item.name in _IN_DEFAULT:
            continue
        group, name = _place_of(item.name)
        deprecated = [cfg.DeprecatedOpt(old, group=where) for where, old in _DEPRECATED.get((group, name), ())]
        options.append((group, _option(name, hints[item.name], item.default, deprecated)))
    return options


#: Fields of a plug-in that say what it is, not what an operator wants of it.
_NO_OPTIONS = frozenset({"name", "reason", "run_once", "runs_on_rebuild", "only_where_placed"})


def _has_option_type(hint: Any) -> bool:
    if get_origin(hint) is tuple:
        return get_args(hint) == (str, ...)
    kinds = [part for part in get_args(hint) or (hint,) if part is not type(None)]
    return len(kinds) == 1 and kinds[0] in {int, float, bool, str}


def _option(name: str, hint: Any, default: Any, deprecated: list[Any]) -> cfg.Opt:
    common = {"default": default, "deprecated_opts": deprecated}
    if get_origin(hint) is tuple:
        many = cfg.MultiStrOpt if name in _MULTI else cfg.ListOpt
        return many(name, **{**common, "default": list(default or ())})
    kinds = {int: cfg.IntOpt, float: cfg.FloatOpt, bool: cfg.BoolOpt, str: cfg.StrOpt}
    bare = next((part for part in get_args(hint) if part is not type(None)), hint)
    bounds = {"min": _MINIMUM[name]} if name in _MINIMUM else {}
    return kinds[bare](name, **common, **bounds)


def _scheduler_settings(conf: Any) -> SchedulerConfig:
    values: dict[str, Any] = {name: conf[name] for name in _IN_DEFAULT}
    for item in dataclasses.fields(SchedulerConfig):
        if item.name not in values:
            group, name = _place_of(item.name)
            value = conf[group][name]
            values[item.name] = tuple(value) if isinstance(value, list) else value
    for field_name in _PAIRS:
        if bad := weight_setting(values[field_name])[1]:
            LOG.warning("[%s] %s: not name=ratio, ignored: %s", *_place_of(field_name), ", ".join(bad))
    for name in _GONE:
        if conf[name] is not None:
            LOG.warning("[DEFAULT] %s is set and has no effect", name)
    if conf.filter_scheduler.pci_in_placement:
        LOG.warning("[filter_scheduler] pci_in_placement has no effect: PCI devices are counted in pools of their own")
    read_aliases(values["pci_alias"])  # a wrong one is found here and now, not when a server asks for it
    return SchedulerConfig(**values)
