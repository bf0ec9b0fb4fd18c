# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ broker of the test session, with users for many agents. Each test uses agent names of its own."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kilonova.bundled_services.rabbitmq import RabbitMQ, ServerCertificate
from kilonova.messaging.rabbit.topology import (
    RIGHTS_OF_CONTROL,
    BrokerUser,
    Rights,
    agent_user,
    control_user,
    definitions,
)
from kilonova.messaging.rabbit.transport_url import Tls, Transport, parse_transport_url
from support.certificates import Authority

_PREFIX = "kilonova-broker-"
CONTROL = "control"
#: User of control processes whose operator creates the agents' queues by RabbitMQ definitions.
RESTRICTED = "restricted"
#: User that sends notifications, with exactly the permissions that the documentation lists.
NOTIFIER = "notifier"
_NOTIFIES = Rights(*[r"^(nova(-lasting)?|(versioned_)?notifications\..+)$"] * 3)
_AGENTS = tuple(f"agent{number}" for number in range(300))
#: Seconds to wait before the broker is killed: a queue created within the last second may stay without a leader.
SETTLED_S = 4.0


class Broker:
    """RabbitMQ broker. A user authenticates with its name as password, or with a certificate of ``authority``."""

    def __init__(self) -> None:
        _remove_leftovers()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self.authority = Authority(self.folder)
        own = self.authority.certify("broker", host="localhost")
        certificate = ServerCertificate(self.authority.ca_file, own.cert_file, own.key_file)
        restricted = replace(RIGHTS_OF_CONTROL, configure=r"^control\..+$")
        users = [
            control_user(CONTROL, CONTROL),
            BrokerUser(RESTRICTED, RESTRICTED, restricted, {}),
            BrokerUser(NOTIFIER, NOTIFIER, _NOTIFIES, {}),
            *(agent_user(name, name) for name in _AGENTS),
        ]
        self.server = RabbitMQ(self.folder, definitions("/", users, ()), certificate)
        self._names = iter(_AGENTS)

    def start(self) -> None:
        """Start the broker and wait until it accepts connections."""
        self.server.start()
        self.server.wait()

    def new_agent(self) -> str:
        """Return the name of an agent that has a broker account and is not used by any other test."""
        return next(self._names)

    def transport(self, user: str, *, port: int | None = None) -> Transport:
        """Return the transport with which ``user`` connects; ``port``: of a proxy before the broker, if any."""
        return _impatient(f"rabbit://{user}:{user}@localhost:{port or self.server.port}/")

    def tls_transport(self, user: str, tls: Tls, *, host: str = "localhost") -> Transport:
        """Return the TLS transport of ``user``, with a password unless a client certificate is given."""
        account = f"{user}:{user}" if tls.cert_file is None else user
        return replace(_impatient(f"rabbit://{account}@{host}:{self.server.tls_port}/"), tls=tls)

    def restart(self) -> None:
        """Kill the broker with SIGKILL and start it on the same port."""
        self.server.kill()
        self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the broker's process (SIGSTOP) for the block: open connections stay, and the kernel accepts new ones."""
        os.kill(self.server.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.server.pid, signal.SIGCONT)

    def stop(self) -> None:
        """Stop the broker and delete its data."""
        self.server.kill()
        self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """Fixture: the broker of the session. A test that kills the broker starts a separate one."""
    made = Broker()
    try:
        made.start()
        yield made
    finally:
        made.stop()


def _impatient(url: str) -> Transport:
    pauses = {"retry_interval_s": 0.1, "retry_backoff_s": 0.1, "max_retry_interval_s": 0.5}
    return Transport(parse_transport_url(url), **pauses)  # type: ignore[arg-type]


def _remove_leftovers() -> None:
    """Remove the folders of test processes that were killed; their brokers stopped with them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if not Path(f"/proc/{folder.name.removeprefix(_PREFIX).split('-')[0]}").exists():
            shutil.rmtree(folder, ignore_errors=True)
