# SPDX-License-Identifier: Apache-2.0
"""`kilonova compute` without a broker: what it refuses, what it does not load, and that it goes on trying."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.cli.main import main
from support.agent_processes import AgentProcess

#: Nobody listens there.
NOWHERE = "rabbit://agent1:hush77@127.0.0.1:1/"
#: What an agent must not bring into memory: whoever breaks into a host has it then, and it costs memory on each.
FOREIGN = ("sqlalchemy", "falcon", "numpy", "keystoneauth1", "kilonova.db", "kilonova.api", "kilonova.conductor")


BROKER = f"[DEFAULT]\ntransport_url = {NOWHERE}\n"
HERE = "state_dir = {here}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"[fake]\nhosts = 1\n{HERE}", "[DEFAULT] transport_url is not set"),
        (BROKER, "[fake] defines no hosts for this process: set hosts, host_names or scenario"),
        (f"{BROKER}[fake]\nhosts = 1\n", "[fake] state_dir must be set"),
        (f"{BROKER}[fake]\nhost_names = a, b, a\n{HERE}", "[fake] host_names has a duplicate host name"),
        (f"{BROKER}[fake]\nscenario = {{here}}/s.yaml\nhost_names = a, z\n{HERE}", "the scenario has no host 'z'"),
        (f"{BROKER}log_file = {{here}}/no/log\n[fake]\nhosts = 1\n{HERE}", "[DEFAULT] log_file"),
        (
            f"[DEFAULT]\ntransport_url = rabbit://a:hush77@h1,b:hush77@h2/\n[fake]\nhosts = 1\n{HERE}",
            "has several user names; an agent process needs a single one",
        ),
        (
            "[DEFAULT]\ntransport_url = kafka://a:hush77@h/\n",
            "[DEFAULT] transport_url: The URL must begin with rabbit://",
        ),
        ("[DEFAULT]\nreport_interval = soon\n", "report_interval"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    (tmp_path / "s.yaml").write_text("hosts: [{name: a}, {name: b}]\n")
    config = tmp_path / "agent.conf"
    config.write_text(text.format(here=tmp_path))
    assert main(["compute", "--config-file", str(config)]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert "hush77" not in told


def test_a_file_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compute"]) == 2
    assert "--config-file" in capsys.readouterr().err


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[AgentProcess]:
    more = "host_prefix = rack1-\nhosts = 50\n[database]\nconnection = sqlite:///somewhere\n"
    process = AgentProcess(tmp_path, NOWHERE, more)
    yield process
    process.stop()


def test_without_a_broker_it_goes_on_trying_knows_nothing_of_the_cloud_and_ends_when_told(alone: AgentProcess) -> None:
    alone.start("-X", "importtime").until_told("no connection to 127.0.0.1")
    loaded = set(re.findall(r"^import time:.*\| +([\w.]+)$", alone.log.read_text(), flags=re.MULTILINE))
    assert "kilonova.compute.sessions" in loaded
    assert not [name for name in loaded if name in FOREIGN or name.startswith(tuple(f"{each}." for each in FOREIGN))]
    assert alone.has_told("Starting the agents of 50 hosts: rack1-1, rack1-2, rack1-3 … rack1-50")
    assert alone.has_told(r"\[database\] connection is set, but agents do not need it")
    assert alone.memory_mib < 80
    assert alone.kill(signal.SIGTERM) == 0
    assert alone.has_told("Stopping the agents of 50 hosts")
    assert "Traceback" not in alone.log.read_text()
    assert "hush77" not in alone.log.read_text()
