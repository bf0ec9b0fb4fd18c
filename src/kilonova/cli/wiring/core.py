# SPDX-License-Identifier: Apache-2.0
"""Builds the core of a control process: mirror, claims, conductor, bus and agents, with one database.

No other module connects these parts. Tests use this module, too, and replace some parts (:class:`Parts`).
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

import numpy as np

import kilonova
from kilonova.claims.capacity_counts import last_counts
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
from kilonova.conductor.hosts.service_group import DeclaredHosts, HostStates
from kilonova.conductor.hosts.service_liveness import ServiceLiveness
from kilonova.conductor.hosts.service_registration import register_services
from kilonova.conductor.periodic.keep_alive import KeepAlive
from kilonova.conductor.periodic.unwanted_images import ImageRemover
from kilonova.conductor.service import Conductor
from kilonova.conductor.workflow_engine.retries import MAX_TRIES, pause_s
from kilonova.config.compute import ComputeSettings
from kilonova.config.database import DatabaseSettings
from kilonova.config.scheduler import scheduling_digest
from kilonova.config.settings import Settings
from kilonova.db import stray_guests, workflows
from kilonova.db.database import Database
from kilonova.db.host_agents import Process
from kilonova.db.shared_tasks import Finished
from kilonova.db.workflows import Count
from kilonova.errors import ConfigurationError
from kilonova.identifiers import new_uuid
from kilonova.images.tickets import TicketOffice
from kilonova.lease import Lease
from kilonova.messaging.bus import AgentBus, ConductorBus, ControlBus, RemoteBus
from kilonova.messaging.codec import VERSION
from kilonova.messaging.local import LocalBus
from kilonova.messaging.rabbit.transport_url import Transport
from kilonova.metrics import Metrics, Sources
from kilonova.mirror.mirror import Mirror
from kilonova.model.found_guest import StrayKind
from kilonova.model.quota import Limits
from kilonova.network.client import NetworkClient
from kilonova.notifications.sinks import Sink
from kilonova.periodic import OwnsPeriodicThreads
from kilonova.process_parts import ProcessParts
from kilonova.records import dataclass
from kilonova.scenario.model import SimulatedHost
from kilonova.scheduler.devices.pci_request import read_aliases

_SERVICES = ("nova-conductor", "nova-scheduler")


#: Function that returns the bus to agents in other processes. Arguments: the id of this process, the agent directory,
#: and a function that returns whether this process may send.
Connect = Callable[[str, AgentDirectory, Callable[[], bool]], RemoteBus]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Replacements of parts of a control process. None: the part that the settings define is used.

    ``connect``: replaces the connection to the broker; if it is set, the agent directory does not poll the database.
    ``image_session``: session of Kilonova's own user at the image service; without a session, hosts get no image data.
    ``network``: replaces the client of the network service. ``host_states``: the service-group driver.
    ``image_keeper``: replaces the image client of Kilonova's own user; ``transfers``: replaces HTTP between hosts and
    control processes. ``sinks``: replace the configured destinations of notifications. ``piece``: maximum number of
    servers claimed in one transaction.
    ``pause_s``: function that returns the seconds until a step's retry, given how often the step has failed;
    ``max_tries``: maximum number of tries of a step. ``owner``: uuid of the control process. ``predecessors``: uuids of
    control processes that have ended for certain, so that this process takes over their work at once.
    ``serves_hosts``: whether this process has the configured hosts.
    """

    rules: Rules | None = None
    bus: ControlBus | None = None
    connect: Connect | None = None
    lease: Lease | None = None
    limits: Limits | None = None
    image_session: Any = None
    image_keeper: ImageKeeper | None = None
    network: NetworkClient | None = None
    host_states: HostStates | None = None
    transfers: ImageTransfers | None = None
    decision_lock: AbstractContextManager[Any] | None = None
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    sinks: Sequence[Sink] | None = None
    piece: int = PIECE
    pause_s: Callable[[int], float] = pause_s
    max_tries: int = MAX_TRIES
    owner: str | None = None
    predecessors: tuple[str, ...] = ()
    serves_hosts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The core of a control process: all parts except APIs and periodic tasks. Its agent directory has been started.

    ``upkeep``: renews the lease; the caller starts it when the process is complete. ``office``: issues the tickets for
    image data. ``image_remover``: removes images that are no longer needed; None if no image service is configured.
    ``resumed``: number of unfinished workflows that were found and resumed.
    """

    database: Database
    mirror: Mirror
    rules: Rules
    claimer: Claimer
    conductor: Conductor
    upkeep: KeepAlive
    bus: ControlBus
    agents: tuple[Agent, ...]
    resumed: int
    metrics: Metrics
    notifying: Notifying
    office: TicketOffice
    image_remover: ImageRemover | None
    replica: Database | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """Objects that all parts of a control process use."""

    settings: Settings
    parts: Parts
    database: Database
    owner: str
    lease: Lease
    metrics: Metrics
    notifying: Notifying

    def may_act(self) -> bool:
        """Return whether this process may act: it holds its lease, so no other process has taken over its work."""
        return self.database.is_sole_process or self.lease.is_held


def start_core(
    settings: Settings,
    database: Database,
    hosts: Sequence[SimulatedHost],
    started: ProcessParts,
    parts: Parts | None = None,
) -> Core:
    """Start the core on a database with the current schema, and register its parts in ``started``.

    Raises: ConfigurationError.
    """
    base = _base(settings, database, parts or Parts(), started)
    rules = base.parts.rules or load_rules(settings)
    mirror = Mirror.follow(database, lock=base.parts.decision_lock)
    replica = _replica(settings.database, started)
    connect = base.parts.connect or _broker_of(settings.rabbit.transport)
    directory, remote = (None, None) if connect is None else _reach_agents(base, connect, lambda: conductor)
    bus = remote or base.parts.bus or LocalBus()
    started.opened("bus", bus.close)
    claimer = _claimer(base, mirror, rules)
    # Claims are registered after the bus, so that they are stopped before it: closing the bus joins its threads, and in
    # one of these a claim may be waiting for an external scheduler driver.
    started.opened("claims", claimer.close)
    office = ticket_office(settings, database)
    keeper = base.parts.image_keeper or image_keeper(settings, base.parts.image_session)
    offers = ImageOffers(settings, office, available=keeper is not None)
    conductor = _conductor(base, claimer, bus, directory, offers, keeper)
    agents = _agents(base, hosts, bus, lambda: conductor.runner.may_act)
    _note_agents(agents, started)

    def announce() -> None:
        start_agents(agents, bus, base.owner)

    if new := register_services(database, conductor.process.machine, _SERVICES):
        base.notifying.listeners.new_services(new)
    if directory is not None and base.parts.connect is None:
        started.start(directory)
    resumed = conductor.process_lease.enter(announce)
    if remote is not None:
        remote.start()
    _watch(base.metrics, database, replica or database, bus, conductor)
    return Core(
        database=database,
        mirror=mirror,
        rules=rules,
        claimer=claimer,
        conductor=conductor,
        upkeep=keep_alive(conductor, bus, settings.compute, announce, base.parts.host_states),
        bus=bus,
        agents=agents,
        resumed=resumed,
        metrics=base.metrics,
        notifying=base.notifying,
        office=office,
        image_remover=None if keeper is None else ImageRemover(database, keeper),
        replica=replica,
    )


def _base(settings: Settings, database: Database, parts: Parts, started: ProcessParts) -> _Base:
    metrics, lease = Metrics(), parts.lease or Lease(timedelta(seconds=settings.conductor.lease_time_s))

    def may_act() -> bool:
        return base.may_act()

    # Notifications are started before the bus and stopped after it, because workflows that end while the bus is being
    # closed still send notifications.
    notifying = start_notifications(settings, database, metrics, may_act, parts.sinks)
    started.opened("notifications", notifying.close)
    base = _Base(
        settings=settings,
        parts=parts,
        database=database,
        owner=parts.owner or new_uuid(),
        lease=lease,
        metrics=metrics,
        notifying=notifying,
    )
    return base


def _reach_agents(
    base: _Base, connect: Connect, conductor: Callable[[], Conductor]
) -> tuple[AgentDirectory, RemoteBus]:
    """Return the directory of agents in other processes, and the bus that reaches them.

    ``conductor``: function that returns the conductor; called only after the directory has been started.
    """

    def moved(hosts: Collection[str]) -> None:
        conductor().hosts_moved(hosts)

    def enrolled() -> None:
        bus.agents_changed()

    directory = AgentDirectory(base.database, base.lease.duration, on_moved=moved, on_enrolled=enrolled)
    bus = connect(base.owner, directory, base.may_act)
    return directory, bus


def _claimer(base: _Base, mirror: Mirror, rules: Rules) -> Claimer:
    scheduler, kept = base.settings.scheduler, base.settings.operator.decision_retention
    return Claimer(
        base.database,
        mirror,
        rules.engine,
        base.owner,
        DecisionLog(base.database, kept, configuration=scheduling_digest(scheduler)),
        rng=base.parts.rng,
        aliases=read_aliases(scheduler.pci_alias),
        alternates=scheduler.max_attempts - 1,
        driver=rules.driver,
        piece=base.parts.piece,
        observers=base.notifying.claim_observers(base.metrics),
        check_kept_decisions=scheduler.check_kept_decisions,
    )


def _conductor(
    base: _Base,
    claimer: Claimer,
    bus: ControlBus,
    directory: AgentDirectory | None,
    offers: ImageOffers,
    keeper: ImageKeeper | None,
) -> Conductor:
    settings, parts, notifying = base.settings, base.parts, base.notifying
    return Conductor(
        base.database,
        claimer,
        bus,
        base.owner,
        max_attempts=settings.scheduler.max_attempts,
        limits=settings.quota.limits() if parts.limits is None else parts.limits,
        counts_failed_builds=settings.conductor.consecutive_build_service_disable_threshold > 0,
        lease=base.lease,
        observers=(base.metrics.observe, *notifying.observers),
        beginnings=notifying.observers,
        listeners=notifying.listeners,
        pause_s=parts.pause_s,
        max_tries=parts.max_tries,
        absent_host_timeout=timedelta(seconds=settings.conductor.absent_host_timeout_s) or None,
        response_timeout_s=settings.conductor.rpc_response_timeout_s,
        image_data=offers.to_read,
        image_upload=offers.to_write,
        image_keeper=keeper,
        network_client=parts.network,
        vif_plugging_timeout_s=settings.conductor.vif_plugging_timeout_s,
        vif_plugging_is_fatal=settings.conductor.vif_plugging_is_fatal,
        routed_networks=settings.scheduler.query_placement_for_routed_network_aggregates,
        question_limits=QuestionLimits(settings.conductor.guest_question_timeout_s, max(1, settings.api.threads // 4)),
        config_drives=ConfigDrives(
            settings.compute.default_availability_zone,
            settings.api.dhcp_domain,
            vendor_data_of(settings.api.vendordata_jsonfile_path),
        ),
        process=Process(base.owner, os.uname().nodename, None, kilonova.__version__, VERSION),
        directory=directory,
        predecessors=parts.predecessors,
    )


def keep_alive(
    conductor: Conductor,
    bus: ConductorBus,
    compute: ComputeSettings,
    announce: Callable[[], None],
    states: HostStates | None = None,
) -> KeepAlive:
    """Return the task that renews the lease of a control process, without starting it.

    ``states``: the service-group driver; without one, earlier declarations are withdrawn.
    """
    declared = DeclaredHosts(conductor.database, states)
    if states is None:
        declared.look()
    down_time = timedelta(seconds=compute.service_down_time_s)
    return KeepAlive(
        conductor.database,
        conductor.lease,
        conductor.process_lease,
        conductor.runner,
        conductor.claimer,
        conductor.heartbeats,
        ServiceLiveness(conductor.database, down_time, listener=conductor.owner, hears=lambda: bus.hears_agents),
        None if states is None else declared,
        announce=announce,
        report_interval_s=compute.report_interval_s,
    )


def _watch(metrics: Metrics, database: Database, counted: Database, bus: ConductorBus, conductor: Conductor) -> None:
    metrics.watch(
        Sources(
            lambda: _under_way(counted, database),
            lambda: database.waiting_writes,
            lambda: bus.waiting,
            lambda: conductor.runner.waits_for_agents,
            lambda: _odd_guests(counted),
            lambda: _stray_ports(conductor),
            lambda: _capacity_counts(counted),
        )
    )


def _note_agents(agents: Sequence[Agent], started: ProcessParts) -> None:
    for agent in agents:
        started.opened(f"agent of {agent.host}", agent.stop)
        if isinstance(agent.driver, OwnsPeriodicThreads):
            started.tasks.add(agent.driver)


def _agents(
    base: _Base, hosts: Sequence[SimulatedHost], bus: AgentBus, may_act: Callable[[], bool]
) -> tuple[Agent, ...]:
    if not base.parts.serves_hosts:
        return ()
    settings, compute, transfers = base.settings, base.settings.compute, base.parts.transfers
    agents = simulate(hosts, settings.fake, compute, settings.image_cache, settings.consoles, bus, may_act, transfers)
    if not compute.control_serves_host or is_simulated(compute):
        return agents
    served = agent_of_driver(settings, settings.conf.options_of, bus, may_act, transfers)
    if any(agent.host == served.host for agent in agents):
        raise ConfigurationError(f"[DEFAULT] host = {served.host} is also the name of a simulated host.")
    return (*agents, served)


def _broker_of(transport: Transport | None) -> Connect | None:
    if transport is None:
        return None
    from kilonova.messaging.rabbit.conductor_end import RabbitConductorBus  # noqa: PLC0415 - only where there is one

    return lambda owner, directory, may_send: RabbitConductorBus(transport, owner, directory, LocalBus(), may_send)


def _replica(settings: DatabaseSettings, started: ProcessParts) -> Database | None:
    """Open the read replica, for queries that tolerate stale data. Return None if no replica is configured."""
    if settings.slave_connection is None:
        return None
    replica = Database(settings.slave_connection, response_timeout_s=settings.response_timeout_s)
    started.opened("replica of the database", replica.close)
    started.tasks.add(replica)
    return replica


def _under_way(counted: Database, database: Database) -> tuple[datetime, Sequence[Count]]:
    with counted.read() as connection:
        return database.clock.now(), workflows.counts(connection)


def _odd_guests(database: Database) -> Mapping[str, int]:
    with database.read() as connection:
        counted = stray_guests.counts(connection)
    return {oddity.value: counted.get(oddity, 0) for oddity in StrayKind}


def _capacity_counts(database: Database) -> Mapping[str, Finished]:
    with database.read() as connection:
        return last_counts(connection)


def _stray_ports(conductor: Conductor) -> Mapping[str, int]:
    numbers = conductor.operations.stray_ports.numbers()
    return {} if numbers is None else {kind.value: number for kind, number in numbers.by_kind.items()}
