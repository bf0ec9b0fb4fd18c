# SPDX-License-Identifier: Apache-2.0
"""Builds an agent process: its agents, with simulated hypervisors or another driver, and its broker connection."""

from collections.abc import Callable
from datetime import timedelta

from kilonova.cli.wiring.agent_settings import image_cache_of, power_reporting_of
from kilonova.cli.wiring.driver_host import agent_of_driver, is_simulated
from kilonova.cli.wiring.metadata_socket import metadata_parts
from kilonova.cli.wiring.simulated_hosts import folder_of, hosts_of, scenario_of, simulate
from kilonova.compute.agent import Agent
from kilonova.compute.power_reports import PowerReports
from kilonova.compute.process import AgentProcess
from kilonova.compute.report_timer import ReportTimer
from kilonova.config.agent import AgentSettings
from kilonova.errors import ConfigurationError
from kilonova.identifiers import new_uuid
from kilonova.lease import Lease
from kilonova.messaging.bus import AgentBus
from kilonova.messaging.rabbit.agent_end import RabbitAgentBus
from kilonova.process_parts import PartOf

#: Duration of the first lease of an agent process, before a control process has sent the configured duration.
_FIRST_LEASE = timedelta(seconds=60)
#: Timeout in seconds of the registration of an agent process at a control process. It is long because many agent
#: processes may start at the same time, and a registration that is repeated in a new session goes to the end of the
#: queue.
_ANSWER_S = 600.0


def make_agent_process(settings: AgentSettings) -> AgentProcess:
    """Return the agent process that the settings describe, without starting it. Raises: ConfigurationError."""
    transport = settings.rabbit.transport
    if transport is None:
        raise ConfigurationError("[DEFAULT] transport_url is not set: an agent process needs a broker.")
    names = {broker.user for broker in transport.url.brokers}
    if len(names) > 1:
        raise ConfigurationError("[DEFAULT] transport_url has several user names; an agent process needs a single one.")
    lease = Lease(_FIRST_LEASE)
    bus = RabbitAgentBus(names.pop(), transport, new_uuid, response_timeout_s=_ANSWER_S)
    agents = agents_of(settings, bus, lambda: lease.is_held)
    reports = ReportTimer(bus, agents, settings.compute.running_deleted_instance_poll_interval_s)
    compute = settings.compute
    power = PowerReports(bus, agents, power_reporting_of(compute))
    every_s, resources_s = compute.report_interval_s, compute.update_resources_interval_s
    if is_simulated(compute):
        folder = folder_of(settings.fake, compute) if settings.fake.read_images else None
        metadata: tuple[PartOf, ...] = ()
    else:
        folder = compute.instances_path
        metadata = metadata_parts(settings.metadata, agents[0].host, bus)
    cache = image_cache_of([] if folder is None else [folder], settings.image_cache)
    return AgentProcess(agents, bus, lease, every_s, power, resources_s=resources_s, others=(cache, reports, *metadata))


def agents_of(settings: AgentSettings, bus: AgentBus, may_act: Callable[[], bool]) -> tuple[Agent, ...]:
    """Return an agent for each host of the process, without starting the agents. Raises: ConfigurationError."""
    fake, compute = settings.fake, settings.compute
    if not is_simulated(compute):
        return (agent_of_driver(settings, settings.options_of, bus, may_act),)
    hosts = hosts_of(fake, scenario_of(fake))
    if not hosts:
        raise ConfigurationError("[fake] defines no hosts for this process: set hosts, host_names or scenario.")
    return simulate(hosts, fake, compute, settings.image_cache, settings.consoles, bus, may_act)
