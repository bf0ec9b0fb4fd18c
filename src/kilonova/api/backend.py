# SPDX-License-Identifier: Apache-2.0
"""The services that API handlers may use, in one object, which the commands in ``cli/`` create."""

from collections.abc import Callable
from dataclasses import field

from kilonova.api.health import Health
from kilonova.api.policy import Policy
from kilonova.api.read_only import AlwaysWritable, Writability
from kilonova.api.replica import Replica
from kilonova.api.usage_history import UsageHistory
from kilonova.change_feed.feed import ChangeFeed
from kilonova.conductor.service import Conductor
from kilonova.config.settings import Settings
from kilonova.db.database import Database
from kilonova.identity.limits import LimitSource, StoredLimits
from kilonova.identity.projects import AnyProject, Projects
from kilonova.images.proxied import FixedImageProxy, ImageProxy
from kilonova.images.source import FixedImages, ImageSource
from kilonova.metrics import Metrics
from kilonova.mirror.mirror import Mirror
from kilonova.network.client import NetworkClient
from kilonova.notifications.publisher import Publisher
from kilonova.records import dataclass
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.rule_change import RebuildRules, cannot_rebuild


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """Services for API handlers.

    ``image_proxy``: serves the routes of images (up to microversion 2.35) and of image metadata (up to 2.38).
    ``network``: client of the network service; None if none is configured.
    ``replica``: the read replica that serves lists; None if none is to.
    ``feed``: the change feed of this process; None in a process without one.
    ``rebuild_rules``: returns the scheduler's rules after a change.
    ``wake_jobs``: makes the queue of jobs look for new and cancelled jobs now.
    ``usage_history``: the last answers about the usage of hosts.
    ``driver_name``: name of the external scheduler driver that is used instead of ``engine``, or None.
    """

    settings: Settings
    database: Database
    mirror: Mirror
    policy: Policy
    conductor: Conductor
    images: ImageSource
    image_proxy: ImageProxy = field(default_factory=lambda: FixedImageProxy(FixedImages(())))
    network: NetworkClient | None = None
    engine: Engine = field(default_factory=Engine)
    limits: LimitSource = field(default_factory=StoredLimits)
    projects: Projects = field(default_factory=AnyProject)
    driver_name: str | None = None
    metrics: Metrics = field(default_factory=Metrics)
    announcer: Publisher = field(default_factory=Publisher)
    health: Health = field(default_factory=lambda: Health(()))
    writability: Writability = field(default_factory=AlwaysWritable)
    replica: Replica | None = None
    feed: ChangeFeed | None = None
    wake_jobs: Callable[[], None] = lambda: None
    usage_history: UsageHistory = field(default_factory=UsageHistory)
    rebuild_rules: RebuildRules = cannot_rebuild
