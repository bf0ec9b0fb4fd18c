# SPDX-License-Identifier: Apache-2.0
"""The options of the files as oslo.config holds them."""

import dataclasses
from typing import Any, get_type_hints

from oslo_config import cfg

from kilonova.config.option import Option, is_option_type
from kilonova.config.section import value_in
from kilonova.config.settings import own_options
from kilonova.errors import ConfigurationError

#: Fields of a plug-in that say what it is, not what an operator wants of it.
_NO_OPTIONS = frozenset({"name", "reason", "run_once", "runs_on_rebuild", "only_where_placed"})


class Configuration(cfg.ConfigOpts):  # type: ignore[misc]  # oslo.config has no types
    """Kilonova's own options. Plug-ins add theirs, in sections named like their classes."""

    def __init__(self) -> None:
        super().__init__()
        self.of_plug_ins: list[tuple[str, cfg.Opt]] = []
        _register(self)

    def options_of(self, plug_in: type[Any]) -> dict[str, Any]:
        """Return what section ``[ClassName]`` says of the fields of a dataclass; classes without fields have none.

        Raises: ConfigurationError, for a value that is not of the field's type.
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
        """Let ``oslo_config.cfg.CONF``, where rules written for Nova look, say what the same files say."""
        _register(cfg.CONF)
        cfg.CONF.register_opt(cfg.StrOpt("compute_topic", default="compute"))  # which older drivers ask hosts_up about
        cfg.CONF([], project="kilonova", default_config_files=self.default_config_files, default_config_dirs=[])


def _register(conf: Any) -> None:
    for group, option in own_options():
        conf.register_opt(option, group=None if group == "DEFAULT" else group)


def shared_conf() -> Any:
    """Return the options that the whole process shares, as rules written for Nova expect them to be."""
    return cfg.CONF


def public_options(conf: Any) -> dict[str, dict[str, Any]]:
    """Return group → option → value in force, of Kilonova's own options and its plug-ins', without the secret ones."""
    shown: dict[str, dict[str, Any]] = {}
    for group, option in (*own_options(), *conf.of_plug_ins):
        if not option.secret:
            shown.setdefault(group, {})[option.name] = value_in(conf, group, option)
    return shown
