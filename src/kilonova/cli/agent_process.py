# SPDX-License-Identifier: Apache-2.0
"""Wire a process with agents: simulated hypervisors, the broker, and nothing else of the cloud."""

from datetime import timedelta

from kilonova.cli.simulated_hosts import hosts_of, image_cache_of, power_reporting_of, scenario_of, simulate
from kilonova.compute.power_reports import PowerReports
from kilonova.compute.process import AgentProcess
from kilonova.compute.report_timer import ReportTimer
from kilonova.config.agent import AgentSettings
from kilonova.errors import ConfigurationError
from kilonova.identifiers import new_uuid
from kilonova.lease import Lease
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
    hosts = hosts_of(settings.fake, scenario_of(settings.fake))
    if not hosts:
        raise ConfigurationError("[fake] hosts, host_names or scenario must say which hosts this process serves.")
    lease = Lease(_FIRST_LEASE)
    bus = RabbitAgentBus(names.pop(), transport, new_uuid, response_timeout_s=_ANSWER_S)
    agents = simulate(
        hosts, settings.fake, settings.compute, settings.image_cache, settings.consoles, bus, lambda: lease.is_held
    )
    reports = ReportTimer(bus, agents, settings.compute.running_deleted_instance_poll_interval_s)
    compute = settings.compute
    power = PowerReports(bus, agents, power_reporting_of(compute))
    every_s, resources_s = compute.report_interval_s, compute.update_resources_interval_s
    cache = image_cache_of(settings.fake, settings.image_cache)
    return AgentProcess(agents, bus, lease, every_s, reports, power, resources_s=resources_s, image_cache=cache)
