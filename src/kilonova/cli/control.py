# SPDX-License-Identifier: Apache-2.0
"""Wire one control process together: database, mirror, engine, claims, conductor, simulated hosts, API."""

import logging
import os
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import numpy as np

from kilonova.api import auth
from kilonova.api.application import WsgiApp, family_app, mount
from kilonova.api.backend import Backend
from kilonova.api.compute import family as compute_api
from kilonova.api.operator import family as operator_api
from kilonova.api.placement import family as placement_api
from kilonova.api.policy import Policy
from kilonova.claims.checkpointer import Checkpointer
from kilonova.claims.claimer import Claimer
from kilonova.claims.decision_log import DecisionLog
from kilonova.cli.database_lock import lock_database, warn_if_exposed
from kilonova.cli.ineffective_options import ineffective_options
from kilonova.cli.rules import Rules, load_rules
from kilonova.cli.scenario_settings import ratios_of
from kilonova.compute.agent import Agent, start_agents
from kilonova.compute.heartbeat import HeartbeatTimer
from kilonova.compute.virt.fake import FakeDriver
from kilonova.conductor.lease import Lease
from kilonova.conductor.purger import Purger
from kilonova.conductor.service import Conductor
from kilonova.conductor.upkeep import Upkeep
from kilonova.config import NO_QUOTAS, UNIFIED_LIMITS, Settings, scheduling_digest
from kilonova.db import schema
from kilonova.db.database import Database
from kilonova.errors import ConfigurationError
from kilonova.identity.limits import LimitSource, StoredLimits, Unlimited
from kilonova.identity.projects import AnyProject, Projects
from kilonova.images.source import FixedImages, ImageSource
from kilonova.messaging.local import LocalBus
from kilonova.mirror.mirror import Mirror
from kilonova.model.image import Image
from kilonova.scenario.load import load_scenario
from kilonova.scenario.model import AllocationRatios, Scenario, SimulatedHost, default_hosts
from kilonova.scheduler.devices.pci_request import read_aliases

LOG = logging.getLogger(__name__)
_ONE_PROCESS_SERVICES = ("nova-conductor", "nova-scheduler")


@dataclass(slots=True)
class ControlProcess:
    """A running control process; ``application`` is its WSGI app."""

    settings: Settings
    database: Database
    mirror: Mirror
    claimer: Claimer
    conductor: Conductor
    upkeep: Upkeep
    checkpointer: Checkpointer
    purger: Purger
    bus: LocalBus
    application: WsgiApp
    agents: tuple[Agent, ...]
    heartbeat: HeartbeatTimer | None
    lock: IO[bytes] | None

    def close(self) -> None:
        """Stop taking work, finish what runs, let go of the database."""
        self.claimer.close()
        if self.heartbeat is not None:
            self.heartbeat.stop()
        self.checkpointer.stop()
        self.purger.stop()
        self.upkeep.stop()
        for agent in self.agents:
            agent.stop()
        self.bus.close()
        self.database.close()
        if self.lock is not None:
            self.lock.close()


def start_control_process(
    settings: Settings, *, engine: Any = None, decision_lock: AbstractContextManager[Any] | None = None
) -> ControlProcess:
    """Start everything but the HTTP server. ``engine`` and ``decision_lock`` stand in for the usual ones in tests.

    Raises: ConfigurationError, also when another control process has the SQLite database.
    """
    rules = load_rules(settings) if engine is None else Rules(engine)
    policy = Policy(settings.conf, (*compute_api.RULES, *placement_api.RULES, *operator_api.RULES))
    for sentence in ineffective_options(settings.conf, settings.scheduler):
        LOG.warning("%s", sentence)
    scenario = load_scenario(settings.fake.scenario) if settings.fake.scenario else None
    with ExitStack() as undo:
        database = Database(settings.database_url, longest_read_s=settings.api.request_timeout_s)
        lock = lock_database(database)
        if lock is not None:
            undo.callback(lock.close)
        undo.callback(database.close)
        warn_if_exposed(database)
        schema.require_current(database)
        mirror = Mirror.follow(database, lock=decision_lock)
        owner = str(uuid.uuid4())
        bus = LocalBus()
        undo.callback(bus.close)
        log = DecisionLog(database, settings.decision_retention, configuration=scheduling_digest(settings.scheduler))
        aliases = read_aliases(settings.scheduler.pci_alias)
        attempts = settings.scheduler.max_attempts
        rng = np.random.default_rng()
        claimer = Claimer(
            database,
            mirror,
            rules.engine,
            owner,
            log,
            rng=rng,
            aliases=aliases,
            alternates=attempts - 1,
            driver=rules.driver,
        )
        undo.callback(claimer.close)
        lease = Lease(timedelta(seconds=settings.lease_s))
        conductor = Conductor(
            database, claimer, bus, owner, max_attempts=attempts, limits=settings.quota.limits(), lease=lease
        )
        agents = _agents(settings, scenario, bus, lambda: conductor.runner.may_act)

        def announce() -> None:
            start_agents(agents, bus)

        upkeep = Upkeep(conductor, os.uname().nodename, _ONE_PROCESS_SERVICES, announce)
        upkeep.register()
        resumed = conductor.membership.enter(announce)
        heartbeat = None
        if agents:
            heartbeat = HeartbeatTimer(bus, [agent.host for agent in agents], settings.compute.report_interval_s)
            heartbeat.start()
            undo.callback(heartbeat.stop)
        if resumed:
            LOG.info("%d unfinished operations are resumed", resumed)
        backend = Backend(
            settings,
            database,
            mirror,
            policy,
            conductor,
            _images(settings, scenario),
            rules.engine,
            limits=_limits(settings),
            projects=_projects(settings),
            driver_name=None if rules.driver is None else rules.driver.name,
        )
        app = _application(settings, backend)
        upkeep.start()
        checkpointer = Checkpointer(database, settings.checkpoints_kept if settings.decision_retention else 0)
        checkpointer.start()
        purger = Purger(database, settings.purge_deleted_after_days)
        purger.start()
        undo.pop_all()
    return ControlProcess(
        settings, database, mirror, claimer, conductor, upkeep, checkpointer, purger, bus, app, agents, heartbeat, lock
    )


def _application(settings: Settings, backend: Backend) -> WsgiApp:
    compute = family_app(compute_api.ComputeFamily(), backend)
    placement = family_app(placement_api.PlacementFamily(), backend)
    operator = family_app(operator_api.OperatorFamily(), backend)
    if settings.api.auth_strategy == "noauth2":
        LOG.warning("[api] auth_strategy = noauth2: there are no passwords, and whoever says so is an administrator")
        apps: Mapping[str, WsgiApp] = {
            "/compute": auth.noauth2(compute, plain_roles=("member", "reader")),
            "/placement": auth.noauth2(placement, plain_roles=()),
            "/operator": auth.noauth2(operator, plain_roles=("member", "reader")),
        }
    else:
        protect: Callable[[WsgiApp], WsgiApp] = auth.keystone(settings.conf)
        apps = {"/compute": protect(compute), "/placement": protect(placement), "/operator": protect(operator)}
    return auth.with_cors(mount(apps), settings.conf)


def _images(settings: Settings, scenario: Scenario | None) -> ImageSource:
    if settings.glance_endpoint:
        from kilonova.images.glance import GlanceImages  # noqa: PLC0415 - brings an HTTP client

        return GlanceImages(settings.glance_endpoint)
    known = scenario.images if scenario else ()
    return FixedImages(
        Image(image_id(image.name), image.name, disk_format=image.disk_format, properties=image.properties)
        for image in known
    )


def _limits(settings: Settings) -> LimitSource:
    if settings.quota.driver == UNIFIED_LIMITS:
        from kilonova.identity.keystone import limits_of  # noqa: PLC0415 - brings an HTTP client

        return limits_of(settings.conf)
    return Unlimited() if settings.quota.driver == NO_QUOTAS else StoredLimits()


def _projects(settings: Settings) -> Projects:
    if settings.api.auth_strategy == "noauth2":
        return AnyProject()
    from kilonova.identity.keystone import projects_of  # noqa: PLC0415 - brings an HTTP client

    return projects_of(settings.conf)


def image_id(name: str) -> str:
    """Return the id of a scenario's image in a cloud without an image service: the same for the same name."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"kilonova:image:{name}"))


def _agents(
    settings: Settings, scenario: Scenario | None, bus: LocalBus, may_act: Callable[[], bool]
) -> tuple[Agent, ...]:
    hosts = scenario.hosts if scenario else default_hosts(settings.fake.hosts)
    if not hosts:
        return ()
    if settings.fake.state_dir is None:
        raise ConfigurationError("[fake] state_dir must be set when there are simulated hosts.")
    folder = settings.fake.state_dir
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ratios = ratios_of(settings)
    return tuple(Agent(host.name, _driver(host, folder, ratios), bus, may_act=may_act) for host in hosts)


def _driver(host: SimulatedHost, folder: Path, ratios: AllocationRatios) -> FakeDriver:
    return FakeDriver(host, folder / f"{quote(host.name, safe='')}.json", ratios)
