# SPDX-License-Identifier: Apache-2.0
"""Wire a process with agents: hypervisors, simulated or of a driver from outside, the broker, and nothing else."""

import socket
from collections.abc import Callable
from datetime import timedelta

from kilonova.cli import virt_drivers
from kilonova.cli.simulated_hosts import (
    agent_for,
    folder_of,
    host_images,
    hosts_of,
    image_cache_of,
    make_folder,
    power_reporting_of,
    ratios_of,
    scenario_of,
    simulate,
)
from kilonova.compute.agent import Agent
from kilonova.compute.power_reports import PowerReports
from kilonova.compute.process import AgentProcess
from kilonova.compute.report_timer import ReportTimer
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.config.agent import AgentSettings
from kilonova.errors import ConfigurationError
from kilonova.identifiers import new_uuid
from kilonova.lease import Lease
from kilonova.messaging.bus import AgentBus
from kilonova.messaging.rabbit.agent_end import RabbitAgentBus

#: Until the control side says how long it is.
_FIRST_LEASE = timedelta(seconds=60)
#: How long the control side may take to register hosts: many agent processes may start at once.
_ANSWER_S = 60.0


def make_agent_process(settings: AgentSettings) -> AgentProcess:
    """Return the process that the settings ask for, not started yet. Raises: ConfigurationError."""
    transport = settings.rabbit.transport
    if transport is None:
        raise ConfigurationError(
            "[DEFAULT] transport_url is not set: an agent process reaches nobody without a broker."
        )
    names = {broker.user for broker in transport.url.brokers}
    if len(names) > 1:
        raise ConfigurationError("[DEFAULT] transport_url names several users, and an agent process is one.")
    lease = Lease(_FIRST_LEASE)
    bus = RabbitAgentBus(names.pop(), transport, new_uuid, response_timeout_s=_ANSWER_S)
    agents = agents_of(settings, bus, lambda: lease.is_held)
    reports = ReportTimer(bus, agents, settings.compute.running_deleted_instance_poll_interval_s)
    compute = settings.compute
    power = PowerReports(bus, agents, power_reporting_of(compute))
    every_s, resources_s = compute.report_interval_s, compute.update_resources_interval_s
    folder = folder_of(settings.fake, settings.compute)
    cache = image_cache_of(folder if settings.fake.read_images else None, settings.image_cache)
    return AgentProcess(agents, bus, lease, every_s, reports, power, resources_s=resources_s, image_cache=cache)


def agents_of(settings: AgentSettings, bus: AgentBus, may_act: Callable[[], bool]) -> tuple[Agent, ...]:
    """Return an agent for each host of the process; none of them is started. Raises: ConfigurationError."""
    fake, compute = settings.fake, settings.compute
    if compute.compute_driver.strip() not in virt_drivers.SIMULATED:
        return (_agent_of_driver(settings, bus, may_act),)
    hosts = hosts_of(fake, scenario_of(fake))
    if not hosts:
        raise ConfigurationError("[fake] hosts, host_names or scenario must say which hosts this process serves.")
    return simulate(hosts, fake, compute, settings.image_cache, settings.consoles, bus, may_act)


def _agent_of_driver(settings: AgentSettings, bus: AgentBus, may_act: Callable[[], bool]) -> Agent:
    """Return the agent of the one host that a driver from outside serves. Raises: ConfigurationError."""
    compute = settings.compute
    folder = compute.instances_path
    if folder is None:
        raise ConfigurationError("[DEFAULT] instances_path must be set for a compute_driver from outside.")
    make_folder(folder, "[DEFAULT] instances_path")
    name = compute.host or socket.gethostname()
    images, ratios = host_images(folder, settings.image_cache), ratios_of(compute)
    setup = HostSetup(name, folder, images, ratios, settings.host_resources)
    driver = virt_drivers.make_driver(compute.compute_driver.strip(), setup, settings.options_of)
    return agent_for(name, driver, compute, bus, may_act)
