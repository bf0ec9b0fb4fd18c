# SPDX-License-Identifier: Apache-2.0
"""Reads settings from configuration files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg

from kilonova.config.agent import AgentSettings
from kilonova.config.compute import ComputeSettings
from kilonova.config.configuration import Configuration, public_options
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.fake import FakeSettings
from kilonova.config.host_resources import read_host_resources
from kilonova.config.images import ImageCacheSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.config.log import LogSettings
from kilonova.config.metadata import MetadataSettings
from kilonova.config.rabbit import RabbitSettings
from kilonova.config.scheduler import read_scheduler
from kilonova.config.section import read_section
from kilonova.config.settings import Settings, sections
from kilonova.errors import ConfigurationError

#: (group, option) of secrets that agents do not need. An attacker who reads them on a host's machine could attack the
#: whole cloud.
_NEEDLESS = (
    ("database", "connection"),
    ("neutron", "metadata_proxy_shared_secret"),
    *((section, "password") for section in ("keystone_authtoken", "neutron", "service_user")),
)


def load_settings(files: Sequence[str]) -> Settings:
    """Read configuration files; later files override earlier ones. Raises: ConfigurationError naming the option."""
    try:
        conf = _read(files)
        found: dict[str, Any] = {name: read_section(section, conf) for name, section in sections().items()}
        found["host_resources"] = read_host_resources(conf)
        return Settings(**found, scheduler=read_scheduler(conf), conf=conf)
    except (cfg.Error, ValueError) as error:
        raise ConfigurationError(str(error).strip()) from error


def load_agent_settings(files: Sequence[str]) -> AgentSettings:
    """Read the configuration files of an agent process; later files override earlier ones.

    Raises: ConfigurationError naming the option.
    """
    try:
        conf = _read(files)
        return AgentSettings(
            rabbit=read_section(RabbitSettings, conf),
            compute=read_section(ComputeSettings, conf),
            fake=read_section(FakeSettings, conf),
            image_cache=read_section(ImageCacheSettings, conf),
            consoles=read_section(ConsoleSettings, conf),
            libvirt=read_section(LibvirtSettings, conf),
            host_resources=read_host_resources(conf),
            log=read_section(LogSettings, conf),
            metadata=read_section(MetadataSettings, conf),
            needless=tuple(f"[{group}] {name}" for group, name in _NEEDLESS if _is_set(conf, group, name)),
            options_of=conf.options_of,
        )
    except (cfg.Error, ValueError) as error:
        raise ConfigurationError(str(error).strip()) from error


def _read(files: Sequence[str]) -> Configuration:
    """Read the files and check every option.

    Raises: ConfigurationError; cfg.Error or ValueError for an invalid value.
    """
    conf = Configuration()
    try:
        conf([], project="kilonova", default_config_files=list(files), default_config_dirs=[])
    except OSError as error:
        raise ConfigurationError(f"configuration file {error.filename}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"configuration file {_undecodable(files)} is not valid UTF-8") from error
    public_options(conf)  # oslo.config checks a value only when it is read, and some options are never read
    return conf


def _undecodable(files: Sequence[str]) -> str:
    """Return the name of the first file that is not valid UTF-8; if there is none, all names joined by "or"."""
    for file in files:
        try:
            Path(file).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return file
        except OSError:
            continue
    return " or ".join(files)


def _is_set(conf: Any, group: str, name: str) -> bool:
    if group not in conf or name not in conf[group]:  # the option belongs to a library that has not registered it yet
        conf.register_opt(cfg.StrOpt(name, secret=True), group=group)
    return bool(conf[group][name])
