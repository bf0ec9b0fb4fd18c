# SPDX-License-Identifier: Apache-2.0
"""Settings of an agent process. They contain no options of the database or the API, and no user credentials."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from kilonova.config.compute import ComputeSettings
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.fake import FakeSettings
from kilonova.config.host_resources import HostResourceSettings
from kilonova.config.images import ImageCacheSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.config.log import LogSettings
from kilonova.config.metadata import MetadataSettings
from kilonova.config.rabbit import RabbitSettings
from kilonova.records import dataclass


def _no_options(cls: type[Any]) -> Mapping[str, Any]:
    del cls
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """The sections that an agent reads.

    ``needless``: names, as "[group] option", of secrets that are set in the files although agents do not use them.
    ``options_of``: function that returns the options of an external driver, given its class.
    """

    rabbit: RabbitSettings
    compute: ComputeSettings = field(default_factory=ComputeSettings)
    fake: FakeSettings = field(default_factory=FakeSettings)
    image_cache: ImageCacheSettings = field(default_factory=ImageCacheSettings)
    consoles: ConsoleSettings = field(default_factory=ConsoleSettings)
    libvirt: LibvirtSettings = field(default_factory=LibvirtSettings)
    host_resources: HostResourceSettings = field(default_factory=HostResourceSettings)
    log: LogSettings = field(default_factory=LogSettings)
    metadata: MetadataSettings = field(default_factory=MetadataSettings)
    needless: tuple[str, ...] = ()
    options_of: Callable[[type[Any]], Mapping[str, Any]] = _no_options
