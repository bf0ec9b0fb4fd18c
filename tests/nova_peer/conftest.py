# SPDX-License-Identifier: Apache-2.0
"""Fixtures: Placement served by Kilonova, and Nova's report client with a nova.conf that points at it.

These tests run in ``.venv-nova``, where Nova is installed and Kilonova is not; the server comes from ``.venv``. Without
Nova, pytest collects nothing here.
"""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from report_peer import Peer

collect_ignore_glob = [] if find_spec("nova") else ["test_*.py"]

_KILONOVA = Path(__file__).parents[2] / ".venv/bin/kilonova"
_START_S = 120.0
_NOAUTH = "auth_type = admin_token\ntoken = admin\nendpoint = {url}\n"
_KEYSTONE = """auth_type = password
auth_url = {auth_url}
username = service
password = {password}
project_name = service
user_domain_name = Default
project_domain_name = Default
region_name = {region}
"""


@dataclass(frozen=True)
class Service:
    """Running Placement. ``section``: the content of ``[placement]`` in nova.conf."""

    url: str
    section: str


@pytest.fixture(scope="session", params=["noauth2", "keystone"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Placement API: once without authentication, and once with Keystone."""
    folder = tmp_path_factory.mktemp(request.param)
    port = _free_port()
    url = f"http://127.0.0.1:{port}/placement"
    if request.param == "noauth2":
        config = folder / "kilonova.conf"
        config.write_text(
            f"[api]\nauth_strategy = noauth2\nbind = 127.0.0.1:{port}\n"
            f"[database]\nconnection = sqlite:///{folder}/kilonova.db\n"
            "[oslo_policy]\nenforce_new_defaults = false\n"  # noauth2's admin lacks the role service
        )
        command = ["api", "--config-file", str(config)]
    else:
        ports = ["--bind", f"127.0.0.1:{port}", "--identity-port", str(_free_port()), "--image-port", str(_free_port())]
        command = ["up", "--hosts", "0", "--no-console-proxy", "--data", str(folder / "data"), *ports]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [_KILONOVA, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait(process, url, folder / "log", supervised=command[0] == "up")
        yield Service(url, _section(folder / "data", url))
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="session")
def configured(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Service:
    """Nova configured with the service's section."""
    from nova import conf, objects

    file = tmp_path_factory.mktemp("nova") / "nova.conf"
    file.write_text(f"[placement]\n{service.section}")
    conf.CONF(["--config-file", str(file)], project="nova")
    objects.register_all()
    return service


@pytest.fixture
def peer(configured: Service) -> Peer:
    """Report client with empty caches, as after a start of nova-compute."""
    from nova import context
    from nova.scheduler.client import report

    return Peer(report.SchedulerReportClient(), context.RequestContext(user_id="u", project_id="p"), configured.url)


def _section(data: Path, url: str) -> str:
    if not data.exists():
        return _NOAUTH.format(url=url)
    import yaml

    cloud = yaml.safe_load((data / "clouds.yaml").read_text())["clouds"]["kilonova"]
    password = json.loads((data / "passwords.json").read_text())["service"]
    return _KEYSTONE.format(region=cloud["region_name"], auth_url=cloud["auth"]["auth_url"], password=password)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path, *, supervised: bool) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            with urllib.request.urlopen(url + "/", timeout=5):
                pass
            if not supervised or "Kilonova is ready" in log.read_text():
                return
        except OSError:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Kilonova did not start:\n{log.read_text()[-3000:]}")
        time.sleep(0.1)


def _free_port() -> int:
    """Return an unused port outside the ephemeral range: a connection to a free port inside could reach itself."""
    for port in random.SystemRandom().sample(range(10_000, 32_768), 1_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")
