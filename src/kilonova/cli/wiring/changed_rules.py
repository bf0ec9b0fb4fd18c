# SPDX-License-Identifier: Apache-2.0
"""The configured rules after a change that an operator wants to try.

A change that came by the API can enable built-in rules and configured plug-ins only, so that no request chooses code to
import. The operator of the machine may also name other classes.
"""

from collections.abc import Iterable
from importlib.metadata import EntryPoint
from typing import Any

from kilonova.api.validation import invalid_field
from kilonova.cli.wiring import plug_ins
from kilonova.cli.wiring.plug_ins import PlugIns, class_path
from kilonova.cli.wiring.rules import build_engine, classes_of, filter_of
from kilonova.config.scheduler import names_code, scheduling_digest, with_option, with_value
from kilonova.config.settings import Settings
from kilonova.errors import ConfigurationError, InvalidRequest, NotFound
from kilonova.records import dataclass, replace
from kilonova.scheduler.devices.pci_request import read_aliases
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.rule_change import RuleChange, RuleSet
from kilonova.scheduler.request_filters import SWITCHES
from kilonova.scheduler.rule import rule_name
from kilonova.scheduler.settings import SchedulerConfig
from kilonova.scheduler.weighers import WEIGHERS


@dataclass(frozen=True, slots=True)
class ChangedRules:
    """Makes rules of changed settings. ``is_local``: the change comes from the operator of this machine."""

    settings: Settings
    is_local: bool = False

    def rebuild(self, change: RuleChange) -> RuleSet:
        """Return the rules after a change. Raises: InvalidRequest naming the field."""
        config = self._with_options(change)
        named = PlugIns(config.plugin_path, self._points(config))
        try:
            config, left = self._with_rules(config, change, named)
            config = _with_weights(config, change, self._weighers(config, named))
            engine = build_engine(config, options=self.settings.conf.options_of, named=named)
        except ConfigurationError as error:
            raise InvalidRequest(error.message) from error
        engine = _without(engine, left)
        own = tuple(self._own_filter(path, config) for path in change.filters)
        engine = replace(engine, filters=(*engine.filters, *own))
        return RuleSet(engine, read_aliases(config.pci_alias), scheduling_digest(config))

    def _with_options(self, change: RuleChange) -> SchedulerConfig:
        config = self.settings.scheduler
        for name, text in change.options.items():
            if name.rpartition(".")[2] == "driver":
                raise invalid_field("options", "A scheduler driver decides by itself, so it cannot be tried.")
            if names_code(name) and not self.is_local:
                raise invalid_field(
                    "options",
                    f"{name} names code. Only `kilonova diff --config-file` on the control host can change it.",
                )
            try:
                config = with_option(config, name, text)
            except NotFound as error:
                raise invalid_field("options", error.message) from None
            except (ValueError, ConfigurationError) as error:
                raise invalid_field("options", f"{name}: {error}") from None
        return config

    def _points(self, config: SchedulerConfig) -> Iterable[EntryPoint]:
        """Return the entry points that may be loaded: all, or those that the configuration names."""
        installed = plug_ins.installed()
        if self.is_local:
            return installed
        names = {*config.enabled_filters, *config.weight_classes, *config.request_filters}
        return [point for point in installed if point.name in names]

    def _weighers(self, config: SchedulerConfig, named: PlugIns) -> dict[str, type[Any]]:
        return classes_of("weight_classes", config.weight_classes, plug_ins.WEIGHERS, named)

    def _with_rules(
        self, config: SchedulerConfig, change: RuleChange, named: PlugIns
    ) -> tuple[SchedulerConfig, frozenset[str]]:
        """Return the settings with other rules, and the rules to take out of the engine, because no option does it."""
        filters = dict.fromkeys(filter(None, map(str.strip, config.enabled_filters)))
        weighers = self._weighers(config, named)
        switches: dict[str, Any] = {}
        for name in change.enable:
            if name in SWITCHES:
                switches[SWITCHES[name]] = True
            elif (cls := WEIGHERS.get(name) or named.find(plug_ins.WEIGHERS, name)) is not None:
                weighers.setdefault(name, cls)
            else:
                filters.setdefault(name)
        always = {each.name for each in build_engine(config, named=named).request_filters}
        left: set[str] = set()
        for name in change.disable:
            if name in SWITCHES and getattr(config, SWITCHES[name]):
                switches[SWITCHES[name]] = False
            elif name in weighers:
                del weighers[name]
            elif name in filters:
                del filters[name]
            elif name in always:
                left.add(name)
            else:
                raise invalid_field("disable", f"The rule {name} is not enabled.")
        paths = tuple(map(class_path, weighers.values()))
        has_same = tuple(self._weighers(config, named).values()) == tuple(weighers.values())
        return (
            replace(
                config,
                **switches,
                enabled_filters=tuple(filters),
                weight_classes=config.weight_classes if has_same else paths,
            ),
            frozenset(left),
        )

    def _own_filter(self, path: str, config: SchedulerConfig) -> Any:
        """Return a filter of ``module:Class``. Raises: InvalidRequest."""
        if not self.is_local:
            raise invalid_field("filters", "Filters of one's own are tried with `kilonova diff --config-file`.")
        module, _, name = path.partition(":")
        try:
            found = classes_of("filter", [f"{module}.{name}"], plug_ins.FILTERS, PlugIns())
        except ConfigurationError as error:
            raise invalid_field("filters", error.message) from error
        (cls,) = found.values()
        return filter_of(cls, config, self.settings.conf.options_of)


def _with_weights(config: SchedulerConfig, change: RuleChange, weighers: dict[str, type[Any]]) -> SchedulerConfig:
    """Return the settings with other multipliers. Raises: InvalidRequest."""
    for name, multiplier in change.weights.items():
        cls = weighers.get(name)
        option = getattr(cls, "option", "")
        if cls is None:
            raise invalid_field("weights", f"The weigher {name} is not enabled.")
        if not hasattr(config, option):
            raise invalid_field("weights", f"The weigher {name} has no option with a multiplier.")
        config = with_value(config, option, multiplier)
    return config


def _without(engine: Engine, names: frozenset[str]) -> Engine:
    kept = tuple(each for each in engine.request_filters if rule_name(each) not in names)
    return engine if len(kept) == len(engine.request_filters) else replace(engine, request_filters=kept)
