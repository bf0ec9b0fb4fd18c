# SPDX-License-Identifier: Apache-2.0
"""A RabbitMQ for tests, one a session, with users for many agents: each test takes names that no other one uses."""

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
#: Control processes of an operator who makes the queues of agents by definitions.
RESTRICTED = "restricted"
#: Who sends notifications: what its rights name is what the documentation says that it needs.
NOTIFIER = "notifier"
_NOTIFIES = Rights(*[r"^(nova(-lasting)?|(versioned_)?notifications\..+)$"] * 3)
_AGENTS = tuple(f"agent{number}" for number in range(300))
#: A queue whose broker is killed within about a second of being made may stay without a leader for ever.
SETTLED_S = 4.0


class Broker:
    """Users of this broker have their names for passwords, or show certificates of its ``authority``."""

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
        """Start the broker and wait until it listens."""
        self.server.start()
        self.server.wait()

    def new_agent(self) -> str:
        """Return the name of an agent that has an account, and that nobody has used."""
        return next(self._names)

    def transport(self, user: str, *, port: int | None = None) -> Transport:
        """Return how ``user`` reaches the broker, maybe through a proxy at ``port``."""
        return _impatient(f"rabbit://{user}:{user}@localhost:{port or self.server.port}/")

    def tls_transport(self, user: str, tls: Tls, *, host: str = "localhost") -> Transport:
        """Return how ``user`` reaches the broker by TLS, with a password unless there is a certificate to show."""
        account = f"{user}:{user}" if tls.cert_file is None else user
        return replace(_impatient(f"rabbit://{account}@{host}:{self.server.tls_port}/"), tls=tls)

    def restart(self) -> None:
        """Kill the broker as a crash would, and start it on the same port."""
        self.server.kill()
        self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the broker meanwhile: its connections stay, and more are accepted by the system."""
        os.kill(self.server.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.server.pid, signal.SIGCONT)

    def stop(self) -> None:
        """End the broker and throw away what it kept."""
        self.server.kill()
        self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """The broker of the session. A test that breaks it starts one of its own."""
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
    """Remove the folders of processes that were killed; their brokers died with them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if not Path(f"/proc/{folder.name.removeprefix(_PREFIX).split('-')[0]}").exists():
            shutil.rmtree(folder, ignore_errors=True)
