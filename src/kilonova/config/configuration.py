# SPDX-License-Identifier: Apache-2.0
"""Kilonova's options, registered in oslo.config."""

import dataclasses
from typing import Any, get_type_hints

from oslo_config import cfg

from kilonova.config.option import Option, is_option_type
from kilonova.config.section import value_in
from kilonova.config.settings import own_options
from kilonova.errors import ConfigurationError

#: Dataclass fields that describe a plug-in itself; their values are not read from configuration files.
_NO_OPTIONS = frozenset({"name", "reason", "run_once", "runs_on_rebuild", "only_where_placed"})


class Configuration(cfg.ConfigOpts):  # type: ignore[misc]  # oslo.config has no types
    """Kilonova's options. Each plug-in adds its own options, in a section named after its class."""

    def __init__(self) -> None:
        super().__init__()
        self.of_plug_ins: list[tuple[str, cfg.Opt]] = []
        _register(self)

    def options_of(self, plug_in: type[Any]) -> dict[str, Any]:
        """Return field → value for the fields of a dataclass, read from ``[ClassName]``; {} for any other class.

        Raises: ConfigurationError for a value that does not have the field's type.
        """
        if not dataclasses.is_dataclass(plug_in):
            return {}
        section, hints = plug_in.__name__, get_type_hints(plug_in)
        found = {}
        for item in dataclasses.fields(plug_in):
            if not item.init or item.name in _NO_OPTIONS or not is_option_type(hints[item.name]):
                continue
            default = None if item.default is dataclasses.MISSING else item.default
            option = Option().to_oslo(item.name, hints[item.name], default)
            if self.register_opt(option, group=section):
                self.of_plug_ins.append((section, option))
            try:
                value = value_in(self, section, option)
            except ValueError as error:
                raise ConfigurationError(f"[{section}] {item.name}: {error}") from error
            if value is not None:
                found[item.name] = tuple(value) if isinstance(value, list) else value
        return found

    def share(self) -> None:
        """Also load the configuration files into ``oslo_config.cfg.CONF``, which plug-ins written for Nova read."""
        _register(cfg.CONF)
        # old scheduler drivers for Nova read the option compute_topic
        cfg.CONF.register_opt(cfg.StrOpt("compute_topic", default="compute"))
        cfg.CONF([], project="kilonova", default_config_files=self.default_config_files, default_config_dirs=[])


def _register(conf: Any) -> None:
    for group, option in own_options():
        conf.register_opt(option, group=None if group == "DEFAULT" else group)


def shared_conf() -> Any:
    """Return ``oslo_config.cfg.CONF``, the process-wide options that plug-ins written for Nova read."""
    return cfg.CONF


def public_options(conf: Any) -> dict[str, dict[str, Any]]:
    """Return group → option → current value, for the options of Kilonova and its plug-ins, without secret options."""
    shown: dict[str, dict[str, Any]] = {}
    for group, option in (*own_options(), *conf.of_plug_ins):
        if not option.secret:
            shown.setdefault(group, {})[option.name] = value_in(conf, group, option)
    return shown
