# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from kilonova.cli.wiring.simulated_hosts import console_addresses, hosts_of, scenario_of
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.fake import FakeSettings
from kilonova.errors import ConfigurationError
from kilonova.model.console import ConsoleProtocol
from kilonova.scenario.model import Scenario, SimulatedHost

SCENARIO = Scenario("s", hosts=(SimulatedHost("big", vcpus=64), SimulatedHost("small", vcpus=1)))


def test_a_process_has_all_hosts_of_a_scenario_or_those_that_it_names() -> None:
    assert hosts_of(FakeSettings(), SCENARIO) == SCENARIO.hosts
    assert hosts_of(FakeSettings(host_names=("small",)), SCENARIO) == SCENARIO.hosts[1:]
    assert [host.name for host in hosts_of(FakeSettings(hosts=2, host_prefix="n"), None)] == ["n1", "n2"]
    assert hosts_of(FakeSettings(hosts=2, host_names=("x",)), None) == (SimulatedHost("x"),)
    assert scenario_of(FakeSettings()) is None


@pytest.mark.parametrize(("names", "message"), [(("big", "big"), r"\[fake\] host_names"), (("big", "huge"), "huge")])
def test_names_that_cannot_be_served_are_refused(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        hosts_of(FakeSettings(host_names=names), SCENARIO)


def test_vnc_may_listen_elsewhere_than_it_is_reached() -> None:
    settings = ConsoleSettings(vnc_listen="0.0.0.0", vnc_reached_at="host1", serial_reached_at="host2")
    addresses = console_addresses(settings)
    assert (addresses[ConsoleProtocol.VNC].listen, addresses[ConsoleProtocol.VNC].reached_at) == ("0.0.0.0", "host1")
    assert addresses[ConsoleProtocol.SERIAL].listen == "host2"
    serial = console_addresses(replace(settings, serial_listen="0.0.0.0"))[ConsoleProtocol.SERIAL]
    assert (serial.listen, serial.reached_at) == ("0.0.0.0", "host2")
