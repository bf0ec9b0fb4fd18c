# SPDX-License-Identifier: Apache-2.0
"""Wire what is behind the APIs of a control process: mirror, claims, conductor, bus and agents, on one database.

The only place that does. Tests wire the same with other parts in some places (:class:`Parts`).
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np

import kilonova
from kilonova.claims.claimer import PIECE, Claimer
from kilonova.claims.decision_log import DecisionLog
from kilonova.cli.wiring.driver_host import agent_of_driver, is_simulated
from kilonova.cli.wiring.image_tickets import ImageOffers, image_keeper, ticket_office
from kilonova.cli.wiring.notifications import Notifying, start_notifications
from kilonova.cli.wiring.rules import Rules, load_rules
from kilonova.cli.wiring.simulated_hosts import simulate
from kilonova.compute.agent import Agent
from kilonova.compute.files.images import ImageTransfers
from kilonova.compute.sessions import start_agents
from kilonova.conductor.guest_data.config_drives import ConfigDrives
from kilonova.conductor.guest_data.image_keeper import ImageKeeper
from kilonova.conductor.guest_data.vendor_data import vendor_data_of
from kilonova.conductor.hosts.agent_directory import AgentDirectory
from kilonova.conductor.hosts.agent_questions import QuestionLimits
from kilonova.conductor.periodic.keep_alive import KeepAlive
from kilonova.conductor.periodic.unwanted_images import ImageRemover
from kilonova.conductor.service import Conductor
from kilonova.conductor.workflow_engine.retries import MAX_TRIES, pause_s
from kilonova.config.database import DatabaseSettings
from kilonova.config.scheduler import scheduling_digest
from kilonova.config.settings import Settings
from kilonova.db import stray_guests, workflows
from kilonova.db.database import Database
from kilonova.db.host_agents import Process
from kilonova.db.workflows import Count
from kilonova.errors import ConfigurationError
from kilonova.identifiers import new_uuid
from kilonova.images.tickets import TicketOffice
from kilonova.lease import Lease
from kilonova.messaging.codec import VERSION
from kilonova.messaging.local import LocalBus
from kilonova.messaging.rabbit.transport_url import Transport
from kilonova.metrics import Metrics, Sources
from kilonova.mirror.mirror import Mirror
from kilonova.model.found_guest import StrayKind
from kilonova.model.quota import Limits
from kilonova.notifications.sinks import Sink
from kilonova.scenario.model import SimulatedHost
from kilonova.scheduler.devices.pci_request import read_aliases

_SERVICES = ("nova-conductor", "nova-scheduler")


#: Makes the bus by which the agents beyond a process are reached, too, of its name, where they are, and whether it may
#: send.
Connect = Callable[[str, AgentDirectory, Callable[[], bool]], Any]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Parts in the place of the usual ones; None stands for those that the settings ask for.

    ``connect``: in the place of the broker; then nothing looks by itself where agents are.
    ``image_session``: of Kilonova's own user at the image service; None for a cloud whose hosts get no image data.
    ``image_keeper``: in the place of that user; ``transfers``: of HTTP between hosts and control processes.
    ``sinks``: where notifications go, in the place of those that the settings name.
    ``piece``: how many servers one transaction claims at most.
    ``pause_s``: how long a step of a workflow waits that broke so often; ``max_tries``: how often it may break.
    """

    rules: Rules | None = None
    bus: Any = None
    connect: Connect | None = None
    lease: Lease | None = None
    limits: Limits | None = None
    image_session: Any = None
    image_keeper: ImageKeeper | None = None
    transfers: ImageTransfers | None = None
    decision_lock: AbstractContextManager[Any] | None = None
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    sinks: Sequence[Sink] | None = None
    piece: int = PIECE
    pause_s: Callable[[int], float] = pause_s
    max_tries: int = MAX_TRIES


@dataclass(frozen=True, slots=True)
class Core:
    """A control process without APIs and without threads of its own that do something from time to time.

    ``office``: issues the tickets for image data. ``image_remover``: removes images that nobody needs; None without an
    image service. ``replica``: of the database, where one is read.
    ``resumed``: how many unfinished operations it found and goes on with.
    """

    database: Database
    mirror: Mirror
    rules: Rules
    claimer: Claimer
    conductor: Conductor
    upkeep: KeepAlive
    bus: Any
    agents: tuple[Agent, ...]
    resumed: int
    metrics: Metrics
    notifying: Notifying
    office: TicketOffice
    image_remover: ImageRemover | None = None
    replica: Database | None = None


def start_core(
    settings: Settings, database: Database, hosts: Sequence[SimulatedHost], undo: ExitStack, parts: Parts | None = None
) -> Core:
    """Start on a database of the present schema. Raises: ConfigurationError.

    ``undo``: gets what stops the core again.
    """
    parts = parts or Parts()
    rules = parts.rules or load_rules(settings)
    metrics = Metrics()
    mirror = Mirror.follow(database, lock=parts.decision_lock)
    owner = new_uuid()
    lease = parts.lease or Lease(timedelta(seconds=settings.conductor.lease_time_s))
    directory = None
    bus: Any = parts.bus or LocalBus()
    connect = parts.connect or _broker_of(settings.rabbit.transport)
    if connect is not None:
        directory = AgentDirectory(database, lease.duration)
        bus = connect(owner, directory, lambda: database.is_sole_process or lease.is_held)
    undo.callback(bus.close)
    notifying = start_notifications(
        settings, database, metrics, lambda: database.is_sole_process or lease.is_held, parts.sinks
    )
    undo.callback(notifying.close)
    scheduler = settings.scheduler
    claimer = Claimer(
        database,
        mirror,
        rules.engine,
        owner,
        DecisionLog(database, settings.operator.decision_retention, configuration=scheduling_digest(scheduler)),
        rng=parts.rng,
        aliases=read_aliases(scheduler.pci_alias),
        alternates=scheduler.max_attempts - 1,
        driver=rules.driver,
        piece=parts.piece,
        observers=notifying.claim_observers(metrics),
    )
    undo.callback(claimer.close)
    office = ticket_office(settings, database)
    keeper = parts.image_keeper or image_keeper(settings, parts.image_session)
    offers = ImageOffers(settings, office, available=keeper is not None)
    conductor = Conductor(
        database,
        claimer,
        bus,
        owner,
        max_attempts=scheduler.max_attempts,
        limits=settings.quota.limits() if parts.limits is None else parts.limits,
        counts_failed_builds=settings.conductor.consecutive_build_service_disable_threshold > 0,
        lease=lease,
        observers=(metrics.observe, *notifying.observers),
        beginnings=notifying.observers,
        listeners=notifying.listeners,
        pause_s=parts.pause_s,
        max_tries=parts.max_tries,
        response_timeout_s=settings.conductor.rpc_response_timeout_s,
        image_data=offers.to_read,
        image_upload=offers.to_write,
        image_keeper=keeper,
        question_limits=QuestionLimits(settings.conductor.guest_question_timeout_s, max(1, settings.api.threads // 4)),
        config_drives=ConfigDrives(
            settings.compute.default_availability_zone,
            settings.api.dhcp_domain,
            vendor_data_of(settings.api.vendordata_jsonfile_path),
        ),
        process=Process(owner, os.uname().nodename, None, kilonova.__version__, VERSION),
        directory=directory,
    )
    agents = _agents(settings, hosts, bus, lambda: conductor.runner.may_act, parts.transfers)

    def announce() -> None:
        start_agents(agents, bus, owner)

    down_time = timedelta(seconds=settings.compute.service_down_time_s)
    upkeep = KeepAlive(
        conductor,
        _SERVICES,
        announce,
        report_interval_s=settings.compute.report_interval_s,
        down_time=down_time,
        hears=lambda: bus.hears_agents,
    )
    upkeep.register()
    if directory is not None:
        directory.on_enrolled = bus.agents_changed
        if parts.connect is None:
            directory.start()
            undo.callback(directory.stop)
    resumed = conductor.membership.enter(announce)
    if directory is not None:
        bus.start()
    replica = _replica(settings.database, undo)
    metrics.watch(
        Sources(
            lambda: _under_way(replica or database, database),
            lambda: database.waiting_writes,
            lambda: bus.waiting,
            lambda: conductor.runner.waits_for_agents,
            lambda: _odd_guests(replica or database),
        )
    )
    remover = None if keeper is None else ImageRemover(database, keeper)
    known = database, mirror, rules, claimer, conductor, upkeep, bus, agents, resumed, metrics, notifying, office
    return Core(*known, remover, replica)


def _agents(
    settings: Settings,
    hosts: Sequence[SimulatedHost],
    bus: Any,
    may_act: Callable[[], bool],
    transfers: ImageTransfers | None,
) -> tuple[Agent, ...]:
    compute = settings.compute
    agents = simulate(hosts, settings.fake, compute, settings.image_cache, settings.consoles, bus, may_act, transfers)
    if not compute.control_serves_host or is_simulated(compute):
        return agents
    served = agent_of_driver(settings, settings.conf.options_of, bus, may_act, transfers)
    if any(agent.host == served.host for agent in agents):
        raise ConfigurationError(f"[DEFAULT] host = {served.host} is the name of a simulated host, too.")
    return (*agents, served)


def _broker_of(transport: Transport | None) -> Connect | None:
    if transport is None:
        return None
    from kilonova.messaging.rabbit.conductor_end import RabbitConductorBus  # noqa: PLC0415 - only where there is one

    return lambda owner, directory, may_send: RabbitConductorBus(transport, owner, directory, LocalBus(), may_send)


def _replica(settings: DatabaseSettings, undo: ExitStack) -> Database | None:
    """Open the database that is read where an older state will do; None where there is none of its own."""
    if settings.slave_connection is None:
        return None
    replica = Database(settings.slave_connection, response_timeout_s=settings.response_timeout_s)
    undo.callback(replica.close)
    return replica


def _under_way(counted: Database, database: Database) -> tuple[datetime, Sequence[Count]]:
    with counted.read() as connection:
        return database.clock.now(), workflows.counts(connection)


def _odd_guests(database: Database) -> Mapping[str, int]:
    with database.read() as connection:
        counted = stray_guests.counts(connection)
    return {oddity.value: counted.get(oddity, 0) for oddity in StrayKind}
