# SPDX-License-Identifier: Apache-2.0
import configparser
import json
from dataclasses import replace
from pathlib import Path

import pytest

from kilonova.cli.up.agent_account import AgentAccount, Certificate, revocation_commands, url_text
from kilonova.config.rabbit import RabbitSettings
from kilonova.errors import ConfigurationError, InvalidRequest
from kilonova.messaging.rabbit.transport_url import BrokerAddress, TransportUrl

URL = TransportUrl(
    (BrokerAddress("mq1", 5671, "control", "secret"), BrokerAddress("::1", None, "control", "secret")), "a/b"
)
BROKER = RabbitSettings(transport_url=URL, ssl=True)


def options(account: AgentAccount) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, default_section="none")
    parser.read_string(account.conf())
    return parser


def test_the_file_of_an_agent_has_its_own_password_and_nothing_of_the_control_process() -> None:
    account, another = AgentAccount.make("rack1", BROKER), AgentAccount.make("rack1", BROKER)
    assert account.password != another.password
    url = options(account)["DEFAULT"]["transport_url"]
    assert url == f"rabbit://rack1:{account.password}@mq1:5671,rack1:{account.password}@[::1]/a%2Fb"
    assert "secret" not in account.conf()
    assert dict(options(account)["oslo_messaging_rabbit"]) == {"ssl": "true"}
    assert str(account.password) not in account.definitions()
    assert json.loads(account.definitions())["vhosts"] == [{"name": "a/b"}]


def test_an_agent_with_a_certificate_has_no_password() -> None:
    account = AgentAccount.make("rack1", BROKER, Certificate(Path("/agent.pem"), Path("/agent.key")))
    assert account.password is None
    section = options(account)["oslo_messaging_rabbit"]
    assert (section["ssl_cert_file"], section["ssl_key_file"]) == ("/agent.pem", "/agent.key")
    assert account.commands(is_known=False)[0] == "rabbitmqctl add_user rack1 ''"
    assert account.commands(is_known=True)[0] == "rabbitmqctl clear_password rack1"


def test_what_an_agent_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"user control|control is the user"):
        AgentAccount.make("control", BROKER)
    with pytest.raises(ConfigurationError, match="transport_url is not set"):
        AgentAccount.make("rack1", RabbitSettings())
    with pytest.raises(ConfigurationError, match=r"[Cc]ertificates need"):
        AgentAccount.make("rack1", replace(BROKER, ssl=False), Certificate(Path("/agent.pem")))


def test_commands_name_the_virtual_host_unless_it_is_the_default() -> None:
    assert revocation_commands("rack1", "/")[1] == "rabbitmqctl delete_queue to.rack1"
    assert revocation_commands("rack1", "a b")[1] == "rabbitmqctl delete_queue -p 'a b' to.rack1"


def test_characters_of_users_and_passwords_are_quoted() -> None:
    assert url_text(replace(URL, brokers=URL.brokers[:1]), "a@b", "p/w:") == "rabbit://a%40b:p%2Fw%3A@mq1:5671/a%2Fb"
