# SPDX-License-Identifier: Apache-2.0
"""The conductor's interface for the API and for agents. Each call returns after the commit of its changes."""

import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import timedelta
from functools import partial

from kilonova.claims.claimer import Claimer
from kilonova.conductor.guest_data.config_drives import ConfigDrives
from kilonova.conductor.guest_data.image_keeper import ImageKeeper
from kilonova.conductor.hosts.agent_directory import AgentDirectory
from kilonova.conductor.hosts.agent_questions import AgentQuestions, QuestionLimits
from kilonova.conductor.hosts.guest_reports import Reported
from kilonova.conductor.hosts.heartbeats import Heartbeats
from kilonova.conductor.hosts.host_registration import register_hosts
from kilonova.conductor.hosts.refused_agents import RefusedAgents
from kilonova.conductor.hosts.strays import Strays
from kilonova.conductor.operations import Operations
from kilonova.conductor.operations.new_servers import NewServers, ServerStore, build_row
from kilonova.conductor.operations.outcomes import Outcomes
from kilonova.conductor.operations.power_sync import PowerSync
from kilonova.conductor.workflow_engine import server_log
from kilonova.conductor.workflow_engine.events import Observer
from kilonova.conductor.workflow_engine.listeners import Listeners
from kilonova.conductor.workflow_engine.pending_replies import RESPONSE_TIMEOUT_S
from kilonova.conductor.workflow_engine.process_lease import ProcessLease
from kilonova.conductor.workflow_engine.retries import MAX_TRIES, pause_s
from kilonova.conductor.workflow_engine.runner import Runner, nowhere
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.stuck_workflows import StuckWorkflows
from kilonova.conductor.workflows import pending_rollbacks
from kilonova.conductor.workflows.registry import REGISTRY
from kilonova.db import agent_sessions, enrolment, host_agents
from kilonova.db.agent_sessions import Session, SessionOverError
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database
from kilonova.db.host_agents import Process
from kilonova.db.workflows import WorkflowRow
from kilonova.identifiers import new_uuid
from kilonova.lease import Lease
from kilonova.messaging.bus import ConductorBus, DeclinedError, Sender
from kilonova.messaging.codec import OLDEST
from kilonova.messaging.messages import (
    Answer,
    AskMetadata,
    CachedImages,
    ConductorMessage,
    ConsoleAddress,
    ConsoleOutput,
    Diagnostics,
    GuestsFound,
    Heartbeat,
    HeartbeatAnswer,
    HostsRegistered,
    HostsStarted,
    MigrationProgress,
    PostPassword,
    PowerStates,
    PowerStatesAnswer,
    Question,
    QuestionRefused,
    StepReply,
    StepStatus,
    TaskReached,
)
from kilonova.model.config_drive import PublicKey
from kilonova.model.image import Image
from kilonova.model.image_data import ImageData
from kilonova.model.instance import Instance
from kilonova.model.local_disk import NO_LOCAL_DISKS, LocalDisks
from kilonova.model.network_request import NO_NETWORKS, NetworkRequest
from kilonova.model.quota import NO_LIMITS, Limits
from kilonova.model.request_spec import RequestSpec, StoredRequest
from kilonova.network.client import NetworkClient

LOG = logging.getLogger(__name__)


class Conductor:
    """The conductor of one control process.

    Parameters: ``owner``: name of this process, as owner of its workflows. ``process``: the record of this process in
    the database. ``limits``: the configured default quotas.
    ``counts_failed_builds``: whether failed builds are counted for the build failure weigher.
    ``observers``: called with an event for every change of a workflow. ``beginnings``: called with an event for every
    start of a step. ``listeners``: callbacks for other events.
    ``pause_s``: number of tries → back-off in seconds. ``max_tries``: maximum number of tries of a step.
    ``absent_host_timeout``: how long a workflow waits for an absent host before it is stuck; None: without limit.
    ``response_timeout_s``: seconds without a reply after which an agent is queried for the status of a step.
    ``question_limits``: timeout and number of threads for questions to agents about guests.
    ``directory``: the agents in other processes; None without a broker.
    ``image_data``: returns the source from which a host downloads an image. ``image_upload``: returns the destination
    to which a host uploads an image. ``image_keeper``: access to Glance as Kilonova's own user.
    ``network_client``: access to Neutron as Kilonova's own user; None without a network service.
    ``vif_plugging_timeout_s``, ``vif_plugging_is_fatal``, ``routed_networks``: as in :class:`Services`.
    ``config_drives``: builder of the contents of config drives. ``predecessors``: uuids of the ended control processes
    that this one replaces.

    Attributes: ``operations``: actions on existing servers. ``runner``: runs the workflows.
    ``stuck``: operators' actions on stuck workflows. ``strays``: removal of stray guests by operators.
    ``process_lease``: the lease of this process. ``heartbeats``: heartbeats of agent processes.
    ``refused_agents``: agents whose release is too old.
    """

    def __init__(
        self,
        database: Database,
        claimer: Claimer,
        bus: ConductorBus,
        owner: str,
        *,
        max_attempts: int,
        limits: Limits = NO_LIMITS,
        counts_failed_builds: bool = True,
        lease: Lease | None = None,
        observers: Sequence[Observer] = (),
        beginnings: Sequence[Observer] = (),
        listeners: Listeners | None = None,
        pause_s: Callable[[int], float] = pause_s,
        max_tries: int = MAX_TRIES,
        absent_host_timeout: timedelta | None = None,
        response_timeout_s: float = RESPONSE_TIMEOUT_S,
        question_limits: QuestionLimits | None = None,
        process: Process | None = None,
        directory: AgentDirectory | None = None,
        image_data: Callable[[str, Image], ImageData | None] = lambda _host, _image: None,
        image_upload: Callable[[str, str], ImageData | None] = lambda _host, _image_id: None,
        image_keeper: ImageKeeper | None = None,
        network_client: NetworkClient | None = None,
        vif_plugging_timeout_s: float = 300.0,
        vif_plugging_is_fatal: bool = True,
        routed_networks: bool = False,
        config_drives: ConfigDrives | None = None,
        predecessors: Collection[str] = (),
    ) -> None:
        self.database = database
        self._bus = bus
        self.claimer = claimer
        #: True if Glance is configured, so that hosts can upload images.
        self.makes_images = image_keeper is not None
        self.owner = owner
        self.process = process or Process(owner)
        self.lease = lease or Lease(host_agents.LEASE)
        self.directory = directory
        self.listeners = listeners or Listeners()
        self._services = Services(
            database=database,
            claimer=claimer,
            owner=owner,
            max_attempts=max_attempts,
            begin=self._begin,
            limits=limits,
            counts_failed_builds=counts_failed_builds,
            image_data=image_data,
            image_upload=image_upload,
            image_keeper=image_keeper,
            network_client=network_client,
            vif_plugging_timeout_s=vif_plugging_timeout_s,
            vif_plugging_is_fatal=vif_plugging_is_fatal,
            routed_networks=routed_networks,
            config_drives=config_drives or ConfigDrives(),
            listeners=self.listeners,
        )
        find_agent = nowhere if directory is None else directory.look_up
        limits_of_waits = question_limits or QuestionLimits()
        outcomes = Outcomes(database, response_timeout_s, limits_of_waits.waiting)
        self.runner = Runner(
            self._services,
            bus,
            REGISTRY,
            self.lease,
            (server_log.tell, *observers, outcomes.tell),
            beginnings=beginnings,
            pause_s=pause_s,
            max_tries=max_tries,
            absent_host_timeout=absent_host_timeout,
            response_timeout_s=response_timeout_s,
            find_agent=find_agent,
        )
        self.process_lease = ProcessLease(
            database,
            self.runner,
            self.process,
            self.lease,
            (lambda: True) if directory is None else directory.has_all,
            predecessors=predecessors,
        )
        self.refused_agents = RefusedAgents()
        self.heartbeats = Heartbeats(database, self.lease.duration)
        self.questions = AgentQuestions(bus, owner, find_agent, limits_of_waits)
        self.operations = Operations(self._services, self.runner, self.questions, outcomes)
        self._power_sync = PowerSync(database, bus, self.operations.power, lambda: self.runner.may_act, find_agent)
        self.stuck = StuckWorkflows(database, self.runner, owner)
        self.strays = Strays(database, self.runner.guests)
        self._store = ServerStore(self._services, self.runner)
        bus.serve_conductor(self.handle, self.answer)

    def build(
        self,
        built: Sequence[Instance],
        spec: RequestSpec,
        group_uuid: str | None,
        user_data: str | None = None,
        *,
        key: PublicKey | None = None,
        trusted_certs: tuple[str, ...] = (),
        admin_pass: str | None = None,
        networks: NetworkRequest = NO_NETWORKS,
        disks: LocalDisks = NO_LOCAL_DISKS,
        at_least: int | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Store new instances with their request and start their builds.

        ``key``: the public key to inject. ``trusted_certs``: ids of the certificates for the image signature.
        ``admin_pass``: administrator's password for guests with a config drive; it is not stored.
        ``networks``, ``disks``: the networks and local disks of each server, after validation.
        ``at_least``: minimum number of servers to create if the quotas do not allow all; None if all are required.
        ``limits``: quotas from an external service (unified limits); None to use the quotas in the database.
        Raises: OverQuota.
        """
        request = StoredRequest(new_uuid(), spec, group_uuid, user_data, key, trusted_certs, disks)
        new = tuple(replace(instance, request_spec_uuid=request.uuid) for instance in built)
        drives = [instance.uuid for instance in built if instance.config_drive]
        self._services.config_drives.passwords.remember(drives, admin_pass)
        rows = tuple(build_row(instance, spec.request_id, networks) for instance in new)
        self._store.store(NewServers(new, request, rows, at_least or len(new), limits, networks))

    def hosts_moved(self, hosts: Collection[str]) -> None:
        """Query the status of pending steps on hosts whose session has changed or ended. Does not block."""
        self._bus.run_urgently(partial(self.runner.ask_hosts, hosts))

    def _begin(self, rows: Sequence[WorkflowRow]) -> None:
        self.runner.begin(rows)

    def handle(self, message: ConductorMessage) -> None:
        """Handle a message of an agent."""
        match message:
            case StepReply() if message.step == pending_rollbacks.STEP:
                pending_rollbacks.take(self.database, message)
            case StepReply():
                self.runner.take_reply(message)
            case StepStatus():
                self.runner.take_status(message)
            case TaskReached():
                self.runner.take_progress(message)
            case MigrationProgress():
                self.operations.live_migrations.record_progress(message)
            case GuestsFound():
                self.runner.guests.take(message)
            case PowerStates():
                self._power_sync.take(message)
            case PowerStatesAnswer():
                self._power_sync.judge(message)
            case CachedImages() | ConsoleOutput() | ConsoleAddress() | Diagnostics() | QuestionRefused():
                self.questions.take(message)

    def answer(self, question: Question, sender: Sender) -> Answer | Future[Answer]:
        """Answer a question of an agent process."""
        match question:
            case HostsStarted():
                return self._register(question, sender)
            case Heartbeat():
                return self._note_heartbeat(question, sender)
            case AskMetadata() | PostPassword():
                return self.operations.guest_metadata.answer(question)

    def _register(self, message: HostsStarted, sender: Sender) -> HostsRegistered:
        """Register starting hypervisors. The answer names the guests that their agents have to remove or restore.

        Raises: Unavailable while the database is unavailable, so that the agent retries, maybe with another control
        process; DeclinedError if the session has expired; Forbidden if the agent is not enrolled for the hosts.
        """
        process = self.process
        if sender.agent:
            self.refused_agents.require_recent(sender, message.release, [report.host for report in message.reports])
            process = Process(message.session, message.machine, sender.agent, message.release, sender.version)

        def register(tx: Transaction) -> Reported:
            if sender.agent:
                hypervisors = [report.hypervisor_hostname for report in message.reports]
                enrolment.require_enrolled(tx, sender.agent, [report.host for report in message.reports], hypervisors)
                agent_sessions.require_present(tx.connection, Session(message.session, sender.agent), tx.now)
            return register_hosts(tx, message, process, self.lease.duration)

        try:
            write = self.database.write_unless_away if sender.agent else self.database.write
            reported = write(register)
        except SessionOverError as error:  # the lease of the agent expired before it had reported all its hosts
            raise DeclinedError(error.message, HeartbeatAnswer(message.session, 0, counts=False)) from error
        if sender.agent and self.directory is not None:
            self.directory.refresh(message.session)
        else:
            self.runner.wake([report.host for report in message.reports])
        reported.tell()
        if reported.new_services:
            self.listeners.new_services(reported.new_services)
        due = pending_rollbacks.orders(self.database, reported.pending_rollbacks)
        return HostsRegistered(reported.removals, self.lease.duration.total_seconds(), due)

    def _note_heartbeat(self, message: Heartbeat, sender: Sender) -> Answer | Future[Answer]:
        """Record a heartbeat. If the agent's session has expired, the answer makes the agent begin a new session."""
        if not sender.agent:
            return HeartbeatAnswer(message.session, message.number, counts=True)
        # The agent's release is too old. The answer makes the agent register again; the refusal of that registration is
        # logged with the reason.
        if sender.version < OLDEST:
            return HeartbeatAnswer(message.session, message.number, counts=False)
        answer: Future[Answer] = Future()

        def written(heard: Future[bool]) -> None:
            error = heard.exception()
            if error is None:
                answer.set_result(HeartbeatAnswer(message.session, message.number, heard.result()))
            else:
                answer.set_exception(error)

        self.heartbeats.heard(Session(message.session, sender.agent)).add_done_callback(written)
        return answer
