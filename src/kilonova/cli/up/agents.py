# SPDX-License-Identifier: Apache-2.0
"""Broker and agent processes of ``kilonova up --agents N``. The agent processes run the hosts of the cloud.

::

    kilonova up ── RabbitMQ             DIR/broker
               ├── kilonova api         control process, without hosts
               ├── kilonova compute     agent1: DIR/agents/agent1.conf, DIR/log/agent1.log
               └── kilonova compute …

New passwords are generated at every start. The broker reads them from its definitions file; each agent reads its
password from its configuration file.
"""

import os
import re
import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kilonova.bundled_services import rabbitmq
from kilonova.bundled_services.private_file import write_private
from kilonova.bundled_services.rabbitmq import RabbitMQ
from kilonova.cli.up.agent_account import AgentAccount, url_text
from kilonova.cli.up.children import RUN_MODULE, Child, ending, has_ended
from kilonova.cli.up.libvirt import LibvirtSide
from kilonova.cli.up.log_options import log_options
from kilonova.config.compute import ComputeSettings
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.host_resources import HostResourceSettings
from kilonova.config.images import ImageCacheSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.config.log import LogSettings
from kilonova.config.metadata import MetadataSettings
from kilonova.config.rabbit import RabbitSettings
from kilonova.config.section import settings_of
from kilonova.errors import ConfigurationError
from kilonova.messaging.rabbit.topology import agent_user, control_user, definitions
from kilonova.messaging.rabbit.transport_url import BrokerAddress, TransportUrl
from kilonova.scenario.options import Sections, conf_text, with_defaults

if TYPE_CHECKING:
    from kilonova.db.agent_sessions import Session
    from kilonova.db.core.transaction import Transaction
    from kilonova.db.database import Database

_HOST = "127.0.0.1"
_CONTROL = "control"
_SECTIONS_OF_AGENTS = (
    ComputeSettings,
    ConsoleSettings,
    HostResourceSettings,
    ImageCacheSettings,
    LibvirtSettings,
    LogSettings,
    MetadataSettings,
)
_OPTIONS_OF_AGENTS = frozenset(
    (setting.group, setting.oslo.name) for section in _SECTIONS_OF_AGENTS for setting in settings_of(section)
)
#: Minimum interval in seconds between queries of the database for the hosts that agents have reported.
_READ_EVERY_S = 0.2
_OWN = re.compile(r"agent[0-9]+")
#: Short intervals between connection attempts, because the broker is started at the same time.
_QUICK: Mapping[str, Any] = {"rabbit_retry_interval": 0.2, "rabbit_retry_backoff": 0.1, "rabbit_interval_max": 2.0}
_HEADER = "# Written at every start by `kilonova up`.\n"


def require_possible(agents: int, hosts: int, operator: Sections, own_hosts: Sequence[str] = ()) -> None:
    """Check that the requested agents can be started. Raises: ConfigurationError.

    ``hosts``: number of simulated hosts. ``own_hosts``: names of the hosts of real guests, each of which gets an agent
    process of its own.
    """
    if len(own_hosts) > 1 and agents != len(own_hosts):
        count = len(own_hosts)
        raise ConfigurationError(
            f"--libvirt-hosts {count} needs --agents {count}: each host of real guests has an agent process of its own"
        )
    if not agents:
        return
    if not rabbitmq.is_installed():
        raise ConfigurationError(
            "--agents needs RabbitMQ, which is not installed. On Debian and Ubuntu: apt-get install rabbitmq-server"
        )
    there_are = hosts + len(own_hosts)
    if agents > there_are:
        raise ConfigurationError(
            f"--agents {agents} exceeds the number of hosts ({there_are}), but each agent needs a host"
        )
    if own_hosts and hosts and agents == 1:
        raise ConfigurationError("--agents 1 is too few: the host of real guests needs an agent process of its own")
    if operator.get("DEFAULT", {}).get("transport_url"):
        raise ConfigurationError("--agents starts its own broker: remove transport_url from --config-file")


def share_out(hosts: Sequence[str], agents: int, own_hosts: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:
    """Return agent → its hosts. Each agent gets consecutive hosts, and at most one host more than any other agent.

    ``own_hosts``: the hosts of real guests, each of which is the only host of one of the last agents.
    """
    if own_hosts:
        *others, last = own_hosts
        return {**(share_out(hosts, agents - 1, others) if agents > 1 else {}), f"agent{agents}": (last,)}
    each, more = divmod(len(hosts), agents)
    shares: dict[str, tuple[str, ...]] = {}
    start = 0
    for number in range(agents):
        end = start + each + (number < more)
        shares[f"agent{number + 1}"] = tuple(hosts[start:end])
        start = end
    return shares


class OwnBroker:
    """The RabbitMQ of this cloud. The supervisor watches it like a child process. Construct it in the main thread."""

    name = "broker"

    def __init__(self, folder: Path, agents: Collection[str]) -> None:
        self._passwords = {name: secrets.token_urlsafe(32) for name in (_CONTROL, *agents)}
        users = [agent_user(name, password) for name, password in self._passwords.items() if name != _CONTROL]
        users.append(control_user(_CONTROL, self._passwords[_CONTROL]))
        self._server = RabbitMQ(folder / "broker", definitions("/", users, agents))
        self._server.start()
        self.log = folder / "broker" / "log" / "start.log"
        self.pidfd = os.pidfd_open(self._server.pid)

    @property
    def port(self) -> int:
        return self._server.port

    def options(self) -> Sections:
        """Return the options that connect the control process to this broker."""
        url = url_text(self._url, _CONTROL, self._passwords[_CONTROL])
        return {"DEFAULT": {"transport_url": url}, RabbitSettings.GROUP: dict(_QUICK)}

    def account(self, agent: str) -> AgentAccount:
        return AgentAccount(agent, RabbitSettings(self._url, **_QUICK), self._passwords[agent])

    def ended(self) -> bool:
        return has_ended(self)

    def answers(self) -> bool:
        return self._server.is_ready()

    def ending(self) -> str:
        return ending(self.pidfd)

    def kill(self) -> None:
        self._server.kill()

    def restart(self) -> None:
        """Start the broker again, on the same ports. Raises: OSError, Unavailable."""
        self._server.kill()
        self._server.start()
        os.close(self.pidfd)
        self.pidfd = os.pidfd_open(self._server.pid)

    def obituary(self) -> str:
        return f"{self.name} {self.ending()}; the last lines of {self.log}:\n{self._server.last_words()}"

    def stop(self) -> None:
        self._server.stop()
        os.close(self.pidfd)

    @cached_property
    def _url(self) -> TransportUrl:
        address = BrokerAddress(_HOST, self._server.port, _CONTROL, self._passwords[_CONTROL])
        return TransportUrl((address,), "/")


class AgentSide:
    """The broker and the agents of a cloud. The constructor starts the broker: call it in the main thread.

    ``shares``: agent → its hosts. ``real``: the hosts of real guests.
    """

    def __init__(
        self,
        folder: Path,
        shares: Mapping[str, Sequence[str]],
        scenario: Path | None,
        real: Sequence[LibvirtSide] = (),
    ) -> None:
        self.shares = shares
        self._real: dict[tuple[str, ...], LibvirtSide] = {(side.name,): side for side in real}
        self.broker = OwnBroker(folder, shares)
        self._folder = folder
        self._scenario = scenario
        self._database: Database | None = None
        self._read_at = float("-inf")
        self._reported: set[str] = set()
        self._ended_sessions: set[str] = set()

    def enrol(self, conf: Sequence[Path]) -> None:
        """Enrol the agents in ``shares``, and revoke agents of earlier starts.

        Call this before the control process starts.
        """
        from kilonova.config.load import load_settings  # noqa: PLC0415 - start-up time
        from kilonova.db import schema  # noqa: PLC0415 - start-up time
        from kilonova.db.database import Database  # noqa: PLC0415 - start-up time

        settings = load_settings([str(file) for file in conf])
        self._database = Database(settings.database.connection)
        schema.require_current(self._database)
        self._database.write(self._enrol)

    def start_agents(self, options: Sequence[Sections], python_path: Sequence[str]) -> Iterator["AgentChild"]:
        """Write the configuration files of each agent, start the agents, and yield their processes.

        ``options``: options of consoles, of the scenario, and the operator's; later ones override earlier ones. An
        agent's file gets only options that agents read.
        """
        for name, hosts in self.shares.items():
            files = self._write(self.broker.account(name), hosts, options)
            yield AgentChild(self, name, files, self._folder, python_path)

    def has_reported(self, agent: str) -> bool:
        """Return whether an agent has reported all its hosts to control processes since its last start.

        Raises: Unavailable.
        """
        if self._read_at + _READ_EVERY_S < time.monotonic():
            self._read_at = time.monotonic()
            self._reported = {host for hosts in self._sessions().values() for host in hosts}
        return self._reported.issuperset(self.shares[agent])

    def expect_report(self, agent: str) -> None:
        """Ignore the reports of an agent's ended processes, whose leases may still be valid. Raises: Unavailable."""
        self._ended_sessions |= {session.uuid for session in self._sessions() if session.agent == agent}
        self._read_at = float("-inf")

    def _sessions(self) -> Mapping["Session", Sequence[str]]:
        """Return session → its reported hosts, for agent processes that may be running."""
        from kilonova.db import agent_sessions  # noqa: PLC0415 - start-up time

        assert self._database is not None
        with self._database.read() as connection:
            sessions = agent_sessions.with_lease(connection, self._database.clock.now())
            return {
                each: agent_sessions.hosts(connection, each.uuid)
                for each in sessions
                if each.uuid not in self._ended_sessions
            }

    def stop(self) -> None:
        """Stop the broker. Call this after all other processes have been stopped."""
        if self._database is not None:
            self._database.close()
        self.broker.stop()

    def _enrol(self, tx: "Transaction") -> None:
        from kilonova.db import agent_sessions, enrolment  # noqa: PLC0415 - start-up time

        before = {agent.name: agent for agent in enrolment.list_all(tx.connection) if _OWN.fullmatch(agent.name)}
        for name in before:
            enrolment.revoke(tx, name)  # revoke all agents first, so that their hosts can be assigned to other agents
        agent_sessions.end_of(tx, before)
        for name, hosts in self.shares.items():
            has = enrolment.get(tx.connection, name).hosts if name in before else ()
            enrolment.enrol(tx, name, hosts, set(has) - set(hosts))

    def _write(self, account: AgentAccount, hosts: Sequence[str], options: Sequence[Sections]) -> Sequence[Path]:
        own = self._folder / "agents"
        own.mkdir(mode=0o700, exist_ok=True)
        files = own / f"{account.name}.conf", own / f"{account.name}.hosts.conf"
        write_private(files[0], account.conf())
        sections = log_options(self._folder / "log" / f"{account.name}.log")
        if (real := self._real.get(tuple(hosts))) is not None:
            sections = with_defaults(sections, real.options())
        else:
            fake = {"host_names": ",".join(hosts), "state_dir": self._folder / "hypervisors"}
            sections = {**sections, "fake": {**fake, **({"scenario": self._scenario} if self._scenario else {})}}
        for more in options:
            sections = with_defaults(_for_agents(more), sections)
        write_private(files[1], _HEADER + conf_text(sections))
        return files


class AgentChild(Child):
    """An agent process. The process counts as up once it has reported all hosts of the agent."""

    def __init__(
        self, side: AgentSide, name: str, files: Sequence[Path], folder: Path, python_path: Sequence[str]
    ) -> None:
        words = [word for file in files for word in ("--config-file", str(file))]
        command = (*RUN_MODULE, "kilonova", "compute", *words)
        super().__init__(name, command, folder / "log" / f"{name}.log", "", folder, python_path)
        self._side = side

    def answers(self) -> bool:
        return self._side.has_reported(self.name)

    def restart(self) -> None:
        self._side.expect_report(self.name)
        super().restart()


def _for_agents(options: Sections) -> dict[str, dict[str, Any]]:
    chosen = {
        section: {name: value for name, value in values.items() if (section, name) in _OPTIONS_OF_AGENTS}
        for section, values in options.items()
    }
    return {section: values for section, values in chosen.items() if values}
