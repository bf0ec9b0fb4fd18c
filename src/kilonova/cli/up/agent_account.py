# SPDX-License-Identifier: Apache-2.0
"""The account of an agent at the broker: the agent's configuration file, and the commands that create the account.

The random password is stored in the configuration file only; the broker stores a salted hash of it.
"""

import json
import secrets
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kilonova.config.rabbit import RabbitSettings
from kilonova.config.section import settings_of
from kilonova.errors import ConfigurationError, InvalidRequest
from kilonova.messaging.rabbit.topology import agent_user, check_agent_name, definitions, from_agent, to_agent
from kilonova.messaging.rabbit.transport_url import BrokerAddress, TransportUrl
from kilonova.records import dataclass
from kilonova.scenario.options import conf_text

_HEADER = """\
# Written by `kilonova compute enrol {name}`, each time it is run; put other options in another file.
# A reader of this file can act as this agent for its hosts: keep the file private.
"""
#: Options with which control processes authenticate at the broker. They are not copied to the configuration of agents.
_FILES = frozenset({"ssl_cert_file", "ssl_key_file"})
_OF_CONTROL = frozenset({("rabbit_login_method", "EXTERNAL")})


@dataclass(frozen=True, slots=True)
class Certificate:
    """Paths of a client certificate and its key on the agent's machine. The common name must be the agent's name."""

    cert_file: Path
    key_file: Path | None = None


@dataclass(frozen=True, slots=True)
class AgentAccount:
    """An agent, its broker and its credentials: either ``certificate`` (a client certificate) or ``password``."""

    name: str
    broker: RabbitSettings
    password: str | None
    certificate: Certificate | None = None

    @classmethod
    def make(cls, name: str, broker: RabbitSettings, certificate: Certificate | None = None) -> "AgentAccount":
        """Return an account with ``certificate``, or with a new random password if ``certificate`` is None.

        ``broker``: settings of the broker in the control processes' configuration. Raises: InvalidRequest,
        ConfigurationError.
        """
        check_agent_name(name)
        if broker.transport_url is None:
            raise ConfigurationError("[DEFAULT] transport_url is not set: agent processes need a broker.")
        if any(name == each.user for each in broker.transport_url.brokers):
            raise InvalidRequest(
                f"The user {name} of the broker is used by control processes; choose another name for the agent."
            )
        if certificate is not None and not broker.ssl:
            raise ConfigurationError("Certificates need [oslo_messaging_rabbit] ssl, which is not set.")
        return cls(name, broker, None if certificate else secrets.token_urlsafe(32), certificate)

    @property
    def virtual_host(self) -> str:
        assert self.broker.transport_url is not None
        return self.broker.transport_url.virtual_host

    def conf(self) -> str:
        """Return the text of the agent's configuration file."""
        assert self.broker.transport_url is not None
        options = _shared_options(self.broker)
        if self.certificate is not None:
            options["ssl_cert_file"] = self.certificate.cert_file
            if self.certificate.key_file is not None:
                options["ssl_key_file"] = self.certificate.key_file
        url = url_text(self.broker.transport_url, self.name, self.password)
        sections: dict[str, Mapping[str, Any]] = {"DEFAULT": {"transport_url": url}}
        if options:
            sections[RabbitSettings.GROUP] = options
        return _HEADER.format(name=self.name) + conf_text(sections)

    def definitions(self) -> str:
        """Return the RabbitMQ definitions (JSON) of the account, with permissions, queues and exchange."""
        user = agent_user(self.name, self.password)
        return json.dumps(definitions(self.virtual_host, [user], [self.name]), indent=2) + "\n"

    def commands(self, *, is_known: bool) -> tuple[str, ...]:
        """Return the commands with which an operator creates the account. Control processes create the agent's queues.

        ``is_known``: whether the account exists at the broker.
        """
        user = agent_user(self.name, self.password)
        at = _at(self.virtual_host)
        if self.password is None:
            first = f"rabbitmqctl clear_password {self.name}" if is_known else f"rabbitmqctl add_user {self.name} ''"
        else:
            first = f"rabbitmqctl {'change_password' if is_known else 'add_user'} {self.name}"
        rights = (user.rights.configure, user.rights.write, user.rights.read)
        limits = json.dumps(dict(user.limits))
        return (
            first,
            f"rabbitmqctl set_permissions{at} {self.name} {shlex.join(rights)}",
            f"rabbitmqctl set_user_limits {self.name} {shlex.quote(limits)}",
        )


def revocation_commands(name: str, virtual_host: str) -> tuple[str, ...]:
    """Return the commands that delete the account and the queues of an agent."""
    at = _at(virtual_host)
    return (
        f"rabbitmqctl delete_user {name}",
        f"rabbitmqctl delete_queue{at} {to_agent(name)}",
        f"rabbitmqctl delete_queue{at} {from_agent(name)}",
    )


def url_text(url: TransportUrl, user: str, password: str | None) -> str:
    """Return the text of a ``transport_url`` with the broker addresses of ``url`` and the given user and password."""
    account = quote(user, safe="") + ("" if password is None else f":{quote(password, safe='')}")
    places = ",".join(f"{account}@{_place(broker)}" for broker in url.brokers)
    return f"rabbit://{places}/{quote(url.virtual_host, safe='')}"


def _place(broker: BrokerAddress) -> str:
    host = f"[{broker.host}]" if ":" in broker.host else broker.host
    return host if broker.port is None else f"{host}:{broker.port}"


def _shared_options(broker: RabbitSettings) -> dict[str, Any]:
    """Return those broker options of the control processes that agents also need, except options left at defaults."""
    defaults = RabbitSettings()
    found = {
        each.oslo.name: getattr(broker, each.field)
        for each in settings_of(RabbitSettings)
        if each.group == RabbitSettings.GROUP and getattr(broker, each.field) != getattr(defaults, each.field)
    }
    return {name: value for name, value in found.items() if (name, value) not in _OF_CONTROL and name not in _FILES}


def _at(virtual_host: str) -> str:
    return "" if virtual_host == "/" else f" -p {shlex.quote(virtual_host)}"
