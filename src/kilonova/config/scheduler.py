# SPDX-License-Identifier: Apache-2.0
"""The scheduler's options, one for each field of SchedulerConfig (a class that does not depend on oslo.config)."""

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any, get_type_hints

from oslo_config import cfg

from kilonova.config.option import Option
from kilonova.config.section import value_in
from kilonova.errors import NotFound
from kilonova.records import replace
from kilonova.scheduler.devices.pci_request import read_aliases
from kilonova.scheduler.settings import SchedulerConfig, weight_setting

LOG = logging.getLogger(__name__)

#: Fields that :class:`~kilonova.config.compute.ComputeSettings` has, too; their options are declared there.
_SHARED = ("service_down_time", "default_availability_zone")
#: Options whose values name code.
_NAMING_CODE = frozenset(
    {"available_filters", "weight_classes", "driver", "request_filters", "plugin_path", "nova_import_compat"}
)
_IN_SCHEDULER = Option(group="scheduler")
#: Field → its option. The options of other fields are in [filter_scheduler], without minimum and maximum.
_OPTIONS: Mapping[str, Option] = {
    "available_filters": Option(repeats=True, former=(("DEFAULT", "scheduler_available_filters"),)),
    "enabled_filters": Option(former=(("DEFAULT", "scheduler_default_filters"),)),
    "weight_classes": Option(repeats=True, former=(("DEFAULT", "scheduler_weight_classes"),)),
    "host_subset_size": Option(min=1, former=(("DEFAULT", "scheduler_host_subset_size"),)),
    "max_instances_per_host": Option(min=1),
    "pci_weight_multiplier": Option(min=0.0),
    "soft_affinity_weight_multiplier": Option(min=0.0),
    "soft_anti_affinity_weight_multiplier": Option(min=0.0),
    "max_attempts": Option(group="scheduler", min=1, former=(("DEFAULT", "scheduler_max_attempts"),)),
    "driver": Option(group="scheduler", former=(("DEFAULT", "scheduler_driver"),)),
    "driver_timeout": Option(group="scheduler", min=0.1),
    "limit_tenants_to_placement_aggregate": _IN_SCHEDULER,
    "placement_aggregate_required_for_tenants": _IN_SCHEDULER,
    "enable_isolated_aggregate_filtering": _IN_SCHEDULER,
    "query_placement_for_image_type_support": _IN_SCHEDULER,
    "query_placement_for_routed_network_aggregates": _IN_SCHEDULER,
    "image_metadata_prefilter": _IN_SCHEDULER,
    "request_filters": _IN_SCHEDULER,
    "plugin_path": _IN_SCHEDULER,
    "nova_import_compat": _IN_SCHEDULER,
    "check_kept_decisions": _IN_SCHEDULER,
    "disable_fallback_pcpu_query": Option(group="workarounds"),
    "pci_alias": Option(group="pci", name="alias", repeats=True, former=(("DEFAULT", "pci_alias"),)),
    "metrics_weight_multiplier": Option(group="metrics", name="weight_multiplier"),
    "metrics_weight_setting": Option(group="metrics", name="weight_setting"),
    "metrics_required": Option(group="metrics", name="required"),
    "metrics_weight_of_unavailable": Option(group="metrics", name="weight_of_unavailable"),
}
#: Fields with lists of ``name=ratio`` pairs.
_PAIRS = ("metrics_weight_setting", "image_props_weight_setting")


def scheduler_options() -> Iterator[tuple[str, str, cfg.Opt]]:
    """Yield (field, group, option) for each option of the scheduler."""
    hints = get_type_hints(SchedulerConfig)
    for item in dataclasses.fields(SchedulerConfig):
        if item.name not in _SHARED:
            option = _OPTIONS.get(item.name, Option())
            oslo = option.to_oslo(item.name, hints[item.name], item.default)
            yield item.name, option.group or "filter_scheduler", oslo


def read_scheduler(conf: Any) -> SchedulerConfig:
    """Return the scheduler's settings from the files. Raises: ValueError for an invalid PCI alias."""
    values: dict[str, Any] = {name: conf[name] for name in _SHARED}
    for field, group, option in scheduler_options():
        value = value_in(conf, group, option)
        values[field] = tuple(value) if isinstance(value, list) else value
        if field in _PAIRS and (bad := weight_setting(value)[1]):
            LOG.warning("[%s] %s: ignored values that are not name=ratio: %s", group, option.name, ", ".join(bad))
    read_aliases(values["pci_alias"])  # an invalid alias must fail the start, not the first server that uses it
    return SchedulerConfig(**values)


def with_option(config: SchedulerConfig, name: str, text: str) -> SchedulerConfig:
    """Return the settings with another value of one option. ``text``: the value as in a configuration file.

    ``name``: as in :class:`SchedulerConfig`, or ``group.option``. Raises: NotFound for an unknown option; ValueError
    or ConfigurationError for a value that it does not accept.
    """
    if name in _SHARED:
        hint = get_type_hints(SchedulerConfig)[name]
        return with_value(config, name, hint(text))
    for field, group, option in scheduler_options():
        if name in {field, f"{group}.{option.name}"}:
            value = option.type(text)
            is_list = isinstance(getattr(config, field), tuple)
            given = (tuple(value) if isinstance(value, list) else (value,)) if is_list else value
            changed = with_value(config, field, given)
            read_aliases(changed.pci_alias)
            return changed
    raise NotFound(f"The scheduler has no option {name}.")


def with_value(config: SchedulerConfig, field: str, value: object) -> SchedulerConfig:
    """Return the settings with another value of one field."""
    changed: dict[str, Any] = {field: value}
    return replace(config, **changed)


def names_code(name: str) -> bool:
    """Tell whether an option of the scheduler names code: classes, modules or folders."""
    return name.rpartition(".")[2] in _NAMING_CODE


def scheduling_digest(config: SchedulerConfig) -> str:
    """Return a digest of the scheduler's configuration. Processes with equal digests make the same decisions."""
    fields = dataclasses.asdict(config)
    del fields["check_kept_decisions"]  # it changes no decision
    text = json.dumps(fields, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
