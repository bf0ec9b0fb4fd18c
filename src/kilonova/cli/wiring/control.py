# SPDX-License-Identifier: Apache-2.0
"""A control process: its database, its core, its APIs and its periodic tasks, started in this order."""

import logging
import os
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from kilonova.api.agents.application import AgentsApi
from kilonova.api.application import WsgiApp
from kilonova.api.backend import Backend
from kilonova.api.health import Check, DatabaseAnswers, Health, switched_off_by
from kilonova.api.policy import Policy
from kilonova.api.read_only import ReadOnlySwitch
from kilonova.api.replica import Replica
from kilonova.change_feed.feed import ChangeFeed
from kilonova.claims.capacity_counts import CapacityCounts
from kilonova.claims.checkpointer import Checkpointer
from kilonova.claims.claimer import Claimer
from kilonova.cli.wiring.agent_settings import image_cache_of, power_reporting_of
from kilonova.cli.wiring.apis import application_of, policy_of
from kilonova.cli.wiring.changed_rules import ChangedRules
from kilonova.cli.wiring.core import Core, Parts, start_core
from kilonova.cli.wiring.database_lock import lock_database, warn_if_exposed
from kilonova.cli.wiring.driver_host import is_simulated
from kilonova.cli.wiring.image_tickets import image_session, image_store
from kilonova.cli.wiring.ineffective_options import ineffective_options
from kilonova.cli.wiring.job_process import command_of
from kilonova.cli.wiring.metadata_socket import metadata_parts
from kilonova.cli.wiring.metrics_listener import serve_metrics
from kilonova.cli.wiring.network import network_client
from kilonova.cli.wiring.plans import plan_runner
from kilonova.cli.wiring.quota_drivers import limit_source
from kilonova.cli.wiring.rules import load_rules
from kilonova.cli.wiring.service_group import host_states
from kilonova.cli.wiring.simulated_hosts import folder_of, hosts_of, scenario_of
from kilonova.compute.power_reports import PowerReports
from kilonova.compute.report_timer import ReportTimer
from kilonova.compute.resource_timer import ResourceTimer
from kilonova.conductor.jobs.job_queue import JobLimits, JobQueue
from kilonova.conductor.periodic import Ages, Timetable
from kilonova.conductor.periodic.purger import Purger
from kilonova.conductor.periodic.stray_port_counts import StrayPortCounts
from kilonova.conductor.service import Conductor
from kilonova.config.database import DatabaseSettings
from kilonova.config.periodic_tasks import PeriodicTaskSettings
from kilonova.config.settings import Settings
from kilonova.db import schema, ticket_keys
from kilonova.db.database import Database
from kilonova.errors import FromNewerRelease, StorageFull, Unavailable
from kilonova.identity.projects import AnyProject, Projects
from kilonova.images.data import ImageStore
from kilonova.images.proxied import FixedImageProxy, ImageProxy
from kilonova.images.source import FixedImages, ImageSource
from kilonova.lease import Lease
from kilonova.mirror.mirror import Mirror
from kilonova.model.image import Image
from kilonova.network.client import NetworkClient
from kilonova.network.limited_client import LimitedClient
from kilonova.periodic import PeriodicTasks
from kilonova.process_parts import ProcessParts
from kilonova.records import dataclass
from kilonova.scenario.model import Scenario
from kilonova.scheduler.devices.pci_request import read_aliases
from kilonova.server.server import Server

LOG = logging.getLogger(__name__)
_BEGUN_AGAIN_AFTER_S = 1.0
#: Minimum interval in seconds at which expired console tokens are removed.
_OFTENEST_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlProcess:
    """A running control process.

    ``application``: its WSGI application; ``parts``: its parts in the order of their start.
    """

    settings: Settings
    core: Core
    application: WsgiApp
    metrics_server: Server | None
    parts: ProcessParts

    @property
    def database(self) -> Database:
        return self.core.database

    @property
    def mirror(self) -> Mirror:
        return self.core.mirror

    @property
    def claimer(self) -> Claimer:
        return self.core.claimer

    @property
    def conductor(self) -> Conductor:
        return self.core.conductor

    def close(self) -> None:
        """Stop accepting work, finish running work, and close the database."""
        self.parts.stop()


def start_control_process(settings: Settings, parts: Parts | None = None) -> ControlProcess:
    """Start a control process without its HTTP server. If the database server is down, wait until it answers.

    Raises: ConfigurationError, for instance if another control process uses the SQLite database.
    """
    parts = parts or Parts()
    rules = parts.rules or load_rules(settings)  # load the rules first, because their plug-ins declare further options
    policy = policy_of(settings.conf)
    session = parts.image_session or image_session(settings)
    states = parts.host_states or host_states(settings)
    for sentence in ineffective_options(settings.conf, settings.scheduler):
        LOG.warning("%s", sentence)
    lease = parts.lease or Lease(timedelta(seconds=settings.conductor.lease_time_s))
    network = parts.network or network_client(settings, lambda: settings.database.is_sqlite or lease.is_held)
    parts = replace(parts, rules=rules, image_session=session, network=network, host_states=states, lease=lease)
    while True:
        try:
            return _start(settings, policy, parts)
        except _DatabaseLostError as error:
            LOG.warning("The start begins again, because the database server failed: %s", error)
            time.sleep(_BEGUN_AGAIN_AFTER_S)


class _DatabaseLostError(Exception):
    """The database server failed during the start."""


@contextmanager
def _told_apart(database: Database) -> Iterator[None]:
    """Convert an Unavailable of a database server to _DatabaseLostError, after which the start is retried."""
    try:
        yield
    except (StorageFull, FromNewerRelease):
        raise
    except Unavailable as error:
        if database.is_sqlite:
            raise
        raise _DatabaseLostError(error.message) from error


def _start(settings: Settings, policy: Policy, given: Parts) -> ControlProcess:
    """Wait for the database, then start.

    Raises: ConfigurationError; _DatabaseLostError if the database server fails.
    """
    scenario = scenario_of(settings.fake)
    parts = ProcessParts()
    with parts.stopped_on_failure():
        database = _open_database(settings, parts)
        with _told_apart(database):
            schema.require_current(database)
            core = start_core(settings, database, hosts_of(settings.fake, scenario), parts, given)
        if core.resumed:
            LOG.info("Resuming %d unfinished workflows", core.resumed)
        parts.start(core.upkeep)
        _start_periodic_tasks(settings, core, parts, _image_folders(settings) if given.serves_hosts else [])
        _serve_metadata(settings, core, parts, given)
        parts.start(plan_runner(settings, core))
        queue, feed = _start_jobs(settings, core, parts), _change_feed(settings, core.database)
        parts.start(feed)
        backend = _backend(settings, policy, core, scenario, parts.tasks, given.network, queue, feed)
        app = application_of(settings, backend, _agents_api(settings, core, image_store(settings, given.image_session)))
        metrics_server = serve_metrics(settings.prometheus, core.metrics)
        if metrics_server is not None:
            parts.opened("metrics", metrics_server.stop)
    return ControlProcess(settings=settings, core=core, application=app, metrics_server=metrics_server, parts=parts)


def _open_database(settings: Settings, parts: ProcessParts) -> Database:
    """Open the database, and wait until it answers. An SQLite database is locked for this process."""
    database = Database(
        settings.database.connection,
        longest_read_s=settings.api.request_timeout_s,
        response_timeout_s=settings.database.response_timeout_s,
    )
    lock = lock_database(database)
    if lock is not None:
        parts.opened("lock of the database", lock.close)
    parts.opened("database", database.close)
    parts.tasks.add(database)
    warn_if_exposed(database)
    schema.wait_until_it_answers(database)
    return database


def _start_periodic_tasks(settings: Settings, core: Core, parts: ProcessParts, image_folders: Sequence[Path]) -> None:
    """Start the periodic tasks of this process: tasks for the whole cloud, and tasks for the hosts of this process."""
    database, conductor, kept, compute = core.database, core.conductor, settings.operator, settings.compute
    if core.notifying.audit is not None:
        parts.start(core.notifying.audit)
    ages = _ages(settings.periodic_tasks, settings.consoles.token_ttl_s)
    parts.start(Timetable(conductor.operations, ages, lambda: conductor.runner.may_act))
    if core.image_remover is not None:
        parts.start(core.image_remover)
    if conductor.runner.services.network_client is not None:
        interval_s, may_act = settings.neutron.stray_port_count_interval_s, lambda: conductor.runner.may_act
        parts.start(StrayPortCounts(conductor.operations.stray_ports, conductor.owner, interval_s, may_act))
    parts.start(
        CapacityCounts(
            database,
            core.mirror,
            core.rules.engine,
            read_aliases(settings.scheduler.pci_alias),
            conductor.owner,
            kept.capacity_metrics_interval_s,
            kept.capacity_metrics_budget_s,
            lambda: conductor.runner.may_act,
        )
    )
    parts.start(Purger(database, kept.purge_deleted_after_days))
    parts.start(Checkpointer(database, kept.checkpoints_kept if kept.decision_retention else 0))
    bus, agents, owner = core.bus, core.agents, conductor.owner
    parts.start(ResourceTimer(bus, agents, lambda: owner, compute.update_resources_interval_s))
    power = PowerReports(bus, agents, power_reporting_of(compute))
    power.came_up()
    parts.start(power)
    parts.start(image_cache_of(image_folders, settings.image_cache))
    parts.start(ReportTimer(bus, agents, compute.running_deleted_instance_poll_interval_s))


def _start_jobs(settings: Settings, core: Core, parts: ProcessParts) -> JobQueue:
    """Start the queue of jobs; without a configuration file it runs none, because their processes need it."""
    kept, command = settings.operator, command_of(settings, os.getpid())
    limits = JobLimits(
        workers=0 if command is None else kept.job_workers,
        longest_s=kept.job_timeout_s,
        kept=kept.jobs_kept,
        kept_for=timedelta(days=kept.jobs_kept_days),
    )
    conductor = core.conductor
    queue = JobQueue(core.database, conductor.owner, command or (), limits, lambda: conductor.runner.may_act)
    parts.start(queue)
    return queue


def _change_feed(settings: Settings, database: Database) -> ChangeFeed:
    limits = settings.operator
    return ChangeFeed(
        database,
        most=limits.max_change_streams,
        most_of_user=limits.max_change_streams_per_user,
        most_waiting=max(1, settings.api.threads // 4),
    )


def _serve_metadata(settings: Settings, core: Core, parts: ProcessParts, given: Parts) -> None:
    """Answer the metadata service of the driver's host, if this process serves this host."""
    compute = settings.compute
    if given.serves_hosts and compute.control_serves_host and not is_simulated(compute):
        for part in metadata_parts(settings.metadata, core.agents[-1].host, core.bus):
            parts.start(part)


def _backend(
    settings: Settings,
    policy: Policy,
    core: Core,
    scenario: Scenario | None,
    tasks: PeriodicTasks,
    network: NetworkClient | None,
    queue: JobQueue,
    feed: ChangeFeed,
) -> Backend:
    images = _images(settings, scenario)
    return Backend(
        settings=settings,
        database=core.database,
        mirror=core.mirror,
        policy=policy,
        conductor=core.conductor,
        images=images,
        image_proxy=_image_proxy(settings, images),
        network=None if network is None else LimitedClient(network, max(1, settings.api.threads * 3 // 4)),
        engine=core.rules.engine,
        limits=limit_source(settings),
        projects=_projects(settings),
        driver_name=None if core.rules.driver is None else core.rules.driver.name,
        metrics=core.metrics,
        announcer=core.notifying.announcer,
        health=_health(settings, core, tasks),
        writability=ReadOnlySwitch(core.database, configured=settings.api.read_only),
        replica=_replica(settings.database, core.replica),
        feed=feed,
        wake_jobs=queue.wake,
        rebuild_rules=ChangedRules(settings).rebuild,
    )


def _replica(settings: DatabaseSettings, database: Database | None) -> Replica | None:
    return Replica(database, settings.replica_max_age_s) if database is not None and settings.replica_lists else None


def _image_folders(settings: Settings) -> list[Path]:
    """Return the folders that contain this process's image caches: of simulated hosts, and of the driver's host."""
    fake, compute = settings.fake, settings.compute
    simulated = folder_of(fake, compute) if fake.read_images else None
    served = compute.instances_path if compute.control_serves_host and not is_simulated(compute) else None
    return [folder for folder in {simulated: None, served: None} if folder is not None]


def _health(settings: Settings, core: Core, tasks: PeriodicTasks) -> Health:
    def lease() -> str | None:
        return None if core.conductor.runner.may_act else "other processes count this one as dead"

    return Health(
        (
            Check("database", DatabaseAnswers(core.database)),
            Check("lease", lease),
            Check("disable_by_file", switched_off_by(settings.health.disable_by_file_path)),
        ),
        tasks,
    )


def _ages(periodic_tasks: PeriodicTaskSettings, console_s: float) -> Ages:
    return Ages(
        reclaim=periodic_tasks.reclaim_instance_interval_s,
        build=periodic_tasks.instance_build_timeout_s,
        confirm=periodic_tasks.resize_confirm_window_s,
        unrescue=periodic_tasks.rescue_timeout_s,
        reboot=periodic_tasks.reboot_timeout_s,
        networks=periodic_tasks.heal_instance_info_cache_interval_s,
        console=max(_OFTENEST_S, console_s),
        offload=periodic_tasks.shelved_offload_time_s,
        offload_every_s=periodic_tasks.shelved_poll_interval_s,
    )


def _images(settings: Settings, scenario: Scenario | None) -> ImageSource:
    if settings.glance.endpoints:
        from kilonova.images.glance import GlanceImages  # noqa: PLC0415 - brings an HTTP client

        return GlanceImages(*settings.glance.endpoints)
    known = scenario.images if scenario else ()
    return FixedImages(
        Image(image_id(image.name), image.name, disk_format=image.disk_format, properties=image.properties)
        for image in known
    )


def _image_proxy(settings: Settings, images: ImageSource) -> ImageProxy:
    if settings.glance.endpoint_override:
        from kilonova.images.glance_proxy import GlanceProxy  # noqa: PLC0415 - brings an HTTP client

        return GlanceProxy(settings.glance.endpoint_override)
    return FixedImageProxy(images)


def _agents_api(settings: Settings, core: Core, store: ImageStore | None) -> AgentsApi:
    def has_agent(host: str) -> bool:
        with core.database.read() as connection:
            return ticket_keys.has_agent(connection, host)

    return AgentsApi(core.office, store, has_agent, threading.BoundedSemaphore(settings.images.max_transfers))


def _projects(settings: Settings) -> Projects:
    if settings.api.auth_strategy == "noauth2":
        return AnyProject()
    from kilonova.identity.keystone import projects_of  # noqa: PLC0415 - brings an HTTP client

    return projects_of(settings.conf, settings.keystone.endpoint_override, verify=settings.keystone.verify)


def image_id(name: str) -> str:
    """Derive the id of a scenario's image from its name, for a cloud without an image service."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"kilonova:image:{name}"))
