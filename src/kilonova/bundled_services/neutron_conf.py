# SPDX-License-Identifier: Apache-2.0
"""Neutron's configuration file. Each mechanism adds the options for binding ports and routing packets."""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from kilonova.bundled_services import sqlite_url
from kilonova.bundled_services.settings import NeutronSettings
from kilonova.records import dataclass

Sections = Mapping[str, Mapping[str, str]]

#: Domain of the host names of ports.
DNS_DOMAIN = "kilonova.internal."
#: Name of the physical network of the external network.
EXTERNAL = "public"
_PLUGINS = (
    "qos", "trunk", "tag", "auto_allocate", "port_forwarding", "segments", "revisions", "timestamp",
    "network_ip_availability",
)  # fmt: skip
#: Suppresses the warnings of these loggers: they concern missing agents and Neutron's own deprecated options.
_LOG_LEVELS = (
    ",".join(
        f"{name}=ERROR"
        for name in (
            "oslo_config.cfg",
            "neutron.scheduler",
            "neutron.quota.resource_registry",
            "neutron.api.extensions",
        )
    )
    + ",stevedore=CRITICAL,oslo_policy=WARNING"
)
_ONLY_IN_TESTS = """\
# Written at every start by `kilonova up`. Requests without a token cannot have the role `service`.
"create_port:binding:profile": ""
"update_port:binding:profile": ""
"create_port_binding": ""
"delete_port_binding": ""
"activate": ""
"""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """An ML2 mechanism driver. ``router``: service plugin of routers; ``options``: additional options."""

    driver: str
    router: str
    options: Sections = field(default_factory=dict)


#: There is one gateway host, so floating addresses are not translated on each host.
_OVN = {"ovn_metadata_enabled": "true", "enable_distributed_floating_ip": "false", "neutron_sync_mode": "log"}
MECHANISMS: Mapping[str, Mechanism] = {
    "simulated": Mechanism("kilonova_simulated", "router"),
    "ovn": Mechanism("ovn", "ovn-router", {"ovn": _OVN, "ml2": {"overlay_ip_version": "4"}}),
}


def conf_text(settings: NeutronSettings, database: Path, paste: Path) -> str:
    """Return the text of ``neutron.conf``. ``database``: file of SQLite; ``paste``: file of the WSGI pipeline."""
    folder = Path(settings.folder)
    mechanism = MECHANISMS[settings.mechanism]
    sections: dict[str, dict[str, str]] = {
        "DEFAULT": {
            "use_stderr": "true",
            "default_log_levels": _LOG_LEVELS,
            "state_path": str(folder),
            "api_paste_config": str(paste),
            "auth_strategy": "keystone" if settings.auth_url else "noauth",
            "core_plugin": "ml2",
            "service_plugins": ",".join((mechanism.router, *_PLUGINS)),
            "transport_url": "fake://",
            "setproctitle": "off",
            "enable_dvr": "false",
            "enable_traditional_dhcp": "false",
            "dhcp_agent_notification": "false",
            "dns_domain": DNS_DOMAIN,
            "notify_nova_on_port_status_changes": str(bool(settings.auth_url)).lower(),
            "notify_nova_on_port_data_changes": str(bool(settings.auth_url)).lower(),
            "send_events_interval": "1",
        },
        "database": {"connection": sqlite_url.url(database)},
        "ml2": {
            "type_drivers": "flat,vlan,geneve",
            "project_network_types": "geneve",
            "mechanism_drivers": mechanism.driver,
            "extension_drivers": "port_security,dns,qos",
        },
        "ml2_type_flat": {"flat_networks": EXTERNAL},
        "ml2_type_vlan": {"network_vlan_ranges": EXTERNAL},
        "ml2_type_geneve": {"vni_ranges": "1:65535", "max_header_size": "38"},
        "quotas": {"default_quota": "-1"},
        "oslo_concurrency": {"lock_path": str(folder / "locks")},
        "oslo_policy": {"policy_file": str(folder / "policy.yaml")},
    }
    if settings.auth_url:
        sections |= _logins(settings)
    for name, options in mechanism.options.items():
        sections[name] = {**sections.get(name, {}), **options}
    if settings.ovn is not None:
        sections["ovn"]["ovn_nb_connection"] = settings.ovn.northbound
        sections["ovn"]["ovn_sb_connection"] = settings.ovn.southbound
    lines = ["# Written at every start by `kilonova up`."]
    for name, options in sections.items():
        lines += ["", f"[{name}]", *(f"{option} = {value}" for option, value in options.items())]
    return "\n".join(lines) + "\n"


def policy_text(settings: NeutronSettings) -> str:
    """Return the text of ``policy.yaml``, which changes Neutron's default policies only in tests."""
    return "{}\n" if settings.auth_url else _ONLY_IN_TESTS


def _logins(settings: NeutronSettings) -> dict[str, dict[str, str]]:
    login = {
        "auth_url": settings.auth_url,
        "auth_type": "password",
        "username": settings.service.user,
        "password": settings.service.password,
        "project_name": settings.service.project,
        "user_domain_name": "Default",
        "project_domain_name": "Default",
        "region_name": settings.region,
    }
    return {
        "keystone_authtoken": {
            "www_authenticate_uri": settings.auth_url,
            **login,
            "service_token_roles_required": "true",
        },
        "nova": {**login, "endpoint_type": "internal"},
    }
