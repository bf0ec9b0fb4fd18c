# SPDX-License-Identifier: Apache-2.0
"""Settings from files."""

from collections.abc import Sequence
from typing import Any

from oslo_config import cfg

from kilonova.config.configuration import Configuration, public_options
from kilonova.config.scheduler import read_scheduler
from kilonova.config.section import read_section
from kilonova.config.settings import Settings, sections
from kilonova.errors import ConfigurationError


def load_settings(files: Sequence[str]) -> Settings:
    """Read configuration files, later ones first. Raises: ConfigurationError naming the option."""
    conf = Configuration()
    try:
        conf([], project="kilonova", default_config_files=list(files), default_config_dirs=[])
        public_options(conf)  # a value is only checked when it is read, and not every option is needed
        found: dict[str, Any] = {name: read_section(section, conf) for name, section in sections().items()}
        return Settings(**found, scheduler=read_scheduler(conf), conf=conf)
    except (cfg.Error, ValueError) as error:
        raise ConfigurationError(str(error).strip()) from error
