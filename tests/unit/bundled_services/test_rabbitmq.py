# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ and the life of its processes; what it does as a broker is tested in tests/messaging."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from kilonova.bundled_services import rabbitmq
from kilonova.bundled_services.rabbitmq import RabbitMQ
from kilonova.errors import ConfigurationError, Unavailable
from support.broker import Broker
from support.waiting import wait_until

_SUPERVISOR = """
import sys, time
from pathlib import Path
from kilonova.bundled_services.rabbitmq import RabbitMQ
server = RabbitMQ(Path(sys.argv[1]), {})
server.start()
print(server.pid, flush=True)
time.sleep(1000)
"""


def of_folder(folder: Path) -> list[psutil.Process]:
    """The processes that have a broker's folder for theirs."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()) == folder:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_nothing_is_left_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    supervisor = subprocess.Popen(
        [sys.executable, "-c", _SUPERVISOR, str(folder)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    assert supervisor.stdout is not None
    server = int(supervisor.stdout.readline())
    wait_until(lambda: len(of_folder(folder)) >= 2, "epmd and the server run")
    wait_until(lambda: psutil.Process(server).name() == "beam.smp", "the script has become the server")
    os.kill(supervisor.pid, signal.SIGKILL)
    supervisor.wait()
    wait_until(lambda: not of_folder(folder), "nothing is left")


def test_ports_are_kept_and_secrets_are_the_owners(tmp_path: Path) -> None:
    chosen = []
    for _ in range(2):
        server = RabbitMQ(tmp_path / "broker", {})
        server.start()
        chosen.append(json.loads((server.folder / "ports.json").read_text()))
        server.kill()
        server.stop()
    assert chosen[0] == chosen[1]
    assert len({*chosen[0].values()}) == 4
    for name in ("ports.json", "definitions.json", "home/.erlang.cookie"):
        assert (server.folder / name).stat().st_mode & 0o077 == 0, name
    assert not of_folder(server.folder)


def test_a_killed_server_has_its_ports_and_its_log_again(tmp_path: Path) -> None:
    server = RabbitMQ(tmp_path / "broker", {})
    server.start()
    try:
        server.wait()
        port = server.port
        server.kill()
        (server.folder / "log" / "start.log").open("a").write("last words\n")
        server.start()
        server.wait()
        assert server.port == port
        assert "last words" in (server.folder / "log" / "start.log").read_text()
    finally:
        server.stop()
    assert not of_folder(server.folder)


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    server = RabbitMQ(tmp_path / "broker", {}, settings=["nonsense = 1"])
    server.start()
    try:
        with pytest.raises(Unavailable, match="RabbitMQ ended with exit status"):
            server.wait()
    finally:
        server.stop()


def test_without_rabbitmq_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rabbitmq, "_SERVER", tmp_path / "nothing")
    with pytest.raises(ConfigurationError, match="apt-get install rabbitmq-server"):
        RabbitMQ(tmp_path, {})


def test_no_account_but_those_of_the_definitions(broker: Broker) -> None:
    users = {line.split("\t")[0] for line in broker.server.control("list_users").splitlines()[1:]}
    assert "guest" not in users
    assert "control" in users
    with pytest.raises(Unavailable, match="rabbitmqctl delete_user failed"):
        broker.server.control("delete_user", "absent-user")
