# SPDX-License-Identifier: Apache-2.0
"""Finds options in configuration files that have no effect: misspelt options, and options of rules not enabled."""

import configparser
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kilonova.config.configuration import shared_conf
from kilonova.config.ineffective import without_effect
from kilonova.config.settings import former_names
from kilonova.scheduler.settings import SchedulerConfig

_OF_LIBRARIES = frozenset(
    {
        *("keystone_authtoken", "oslo_policy", "oslo_middleware", "oslo_concurrency", "oslo_limit"),
        *("oslo_versionedobjects", "oslo_reports", "cors", "healthcheck", "profiler", "service_user", "nova", "ssl"),
        *("audit_middleware_notifications", "neutron"),
    }
)
"""Sections of libraries, each of which registers its options itself when it is first used."""
_BROKER, _NOTIFIES = "oslo_messaging_rabbit", "oslo_messaging_notifications"
_OF_FILTERS: Mapping[str, tuple[str, ...]] = {
    "max_io_ops_per_host": ("IoOpsFilter", "AggregateIoOpsFilter"),
    "max_instances_per_host": ("NumInstancesFilter", "AggregateNumInstancesFilter"),
    "image_properties_default_architecture": ("ImagePropertiesFilter",),
    "isolated_images": ("IsolatedHostsFilter",),
    "isolated_hosts": ("IsolatedHostsFilter",),
    "restrict_isolated_hosts_to_isolated_images": ("IsolatedHostsFilter",),
    "aggregate_image_properties_isolation_namespace": ("AggregateImagePropertiesIsolation",),
    "aggregate_image_properties_isolation_separator": ("AggregateImagePropertiesIsolation",),
}
"""Option of ``[filter_scheduler]`` → all filters that read it."""


def ineffective_options(conf: Any, scheduler: SchedulerConfig) -> Iterator[str]:
    """Yield a sentence for each option of the configuration files that has no effect.

    ``conf``: oslo.config object in which all loaded parts, including plug-ins, have registered their options.
    """
    seen: set[tuple[str, str]] = set()
    for file in conf.default_config_files:
        for section, name in _options_in(file):
            if (section, name) not in seen and (why := _why(conf, scheduler, section, name)) is not None:
                yield f"{file}: [{section}] {name} has no effect: {why}"
            seen.add((section, name))


def _options_in(file: str) -> Sequence[tuple[str, str]]:
    parser = configparser.ConfigParser(
        strict=False, interpolation=None, allow_no_value=True, default_section="(no defaults)"
    )
    try:
        parser.read(file, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return ()  # oslo.config has accepted the file, so it is valid; configparser cannot read it
    return [(section, name) for section in parser.sections() for name in parser[section]]


def _why(conf: Any, scheduler: SchedulerConfig, section: str, name: str) -> str | None:
    if section == _BROKER and conf[_NOTIFIES].driver:
        return None  # oslo.messaging reads the section itself
    if section in _OF_LIBRARIES:
        return without_effect(section, name)
    if not _is_known(conf, section, name):
        return "the option does not exist."
    if (reason := without_effect(section, name)) is not None:
        return reason
    filters = _OF_FILTERS.get(name, ()) if section == "filter_scheduler" else ()
    if filters and not {*filters} & {*map(str.strip, scheduler.enabled_filters)}:
        return f"{' and '.join(filters)} {'is' if len(filters) == 1 else 'are'} not enabled."
    return None


def _is_known(conf: Any, section: str, name: str) -> bool:
    dest = name.replace("-", "_")
    if (section, name) in former_names():
        return True
    return any(dest in _group(each, section) for each in (conf, shared_conf()))


def _group(conf: Any, section: str) -> Any:
    if section == "DEFAULT":
        return conf
    return conf[section] if section in conf else ()  # noqa: SIM401 conf.get() raises for an unknown section
