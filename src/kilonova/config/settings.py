# SPDX-License-Identifier: Apache-2.0
"""All settings of a control process."""

from collections.abc import Iterator
from dataclasses import field
from functools import cache
from typing import Any, get_type_hints

from oslo_config import cfg

from kilonova.config.api import ApiSettings, BodyLimits
from kilonova.config.compute import ComputeSettings
from kilonova.config.conductor import ConductorSettings
from kilonova.config.console_proxy import ConsoleProxySettings
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.database import DatabaseSettings
from kilonova.config.fake import FakeSettings
from kilonova.config.glance import GlanceSettings
from kilonova.config.health import HealthSettings
from kilonova.config.host_resources import HostResourceSettings
from kilonova.config.images import ImageCacheSettings, ImageSettings
from kilonova.config.ineffective import INEFFECTIVE
from kilonova.config.keystone import KeystoneSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.config.log import LogSettings
from kilonova.config.metadata import MetadataSettings
from kilonova.config.neutron import NeutronSettings
from kilonova.config.notifications import NotificationSettings
from kilonova.config.operator import OperatorSettings
from kilonova.config.periodic_tasks import PeriodicTaskSettings
from kilonova.config.placement import PlacementSettings
from kilonova.config.prometheus import PrometheusSettings
from kilonova.config.quota import QuotaSettings
from kilonova.config.rabbit import RabbitSettings
from kilonova.config.scheduler import scheduler_options
from kilonova.config.section import Section, settings_of
from kilonova.records import dataclass
from kilonova.scheduler.settings import SchedulerConfig


@dataclass(frozen=True, slots=True)
class Settings:
    """The sections that a control process reads.

    ``conf``: oslo.config object, for libraries that read their options themselves.
    """

    database: DatabaseSettings
    api: ApiSettings = field(default_factory=ApiSettings)
    bodies: BodyLimits = field(default_factory=BodyLimits)
    periodic_tasks: PeriodicTaskSettings = field(default_factory=PeriodicTaskSettings)
    compute: ComputeSettings = field(default_factory=ComputeSettings)
    conductor: ConductorSettings = field(default_factory=ConductorSettings)
    console_proxy: ConsoleProxySettings = field(default_factory=ConsoleProxySettings)
    consoles: ConsoleSettings = field(default_factory=ConsoleSettings)
    fake: FakeSettings = field(default_factory=FakeSettings)
    glance: GlanceSettings = field(default_factory=GlanceSettings)
    health: HealthSettings = field(default_factory=HealthSettings)
    host_resources: HostResourceSettings = field(default_factory=HostResourceSettings)
    image_cache: ImageCacheSettings = field(default_factory=ImageCacheSettings)
    images: ImageSettings = field(default_factory=ImageSettings)
    keystone: KeystoneSettings = field(default_factory=KeystoneSettings)
    libvirt: LibvirtSettings = field(default_factory=LibvirtSettings)
    log: LogSettings = field(default_factory=LogSettings)
    metadata: MetadataSettings = field(default_factory=MetadataSettings)
    neutron: NeutronSettings = field(default_factory=NeutronSettings)
    notifications: NotificationSettings = field(default_factory=NotificationSettings)
    operator: OperatorSettings = field(default_factory=OperatorSettings)
    placement: PlacementSettings = field(default_factory=PlacementSettings)
    prometheus: PrometheusSettings = field(default_factory=PrometheusSettings)
    quota: QuotaSettings = field(default_factory=QuotaSettings)
    rabbit: RabbitSettings = field(default_factory=RabbitSettings)
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    conf: Any = None


@cache
def sections() -> dict[str, type[Section]]:
    """Return field → class, for the fields of :class:`Settings` that are sections."""
    return {name: kind for name, kind in get_type_hints(Settings).items() if hasattr(kind, "GROUP")}


@cache
def own_options() -> tuple[tuple[str, cfg.Opt], ...]:
    """Return (group, option) of all options except those of plug-ins and libraries."""
    return tuple(_own_options())


def _own_options() -> Iterator[tuple[str, cfg.Opt]]:
    for section in sections().values():
        for setting in settings_of(section):
            yield setting.group, setting.oslo
    for _, group, option in scheduler_options():
        yield group, option
    for group, options in INEFFECTIVE.items():
        for option in options:
            yield group, option


@cache
def former_names() -> frozenset[tuple[str, str]]:
    """Return the deprecated (group, name) pairs by which options can still be set."""
    return frozenset((old.group, old.name) for _, option in own_options() for old in option.deprecated_opts)
