# SPDX-License-Identifier: Apache-2.0
"""``kilonova compute enrol``, ``agents`` and ``revoke``, on a database that no control process has."""

import base64
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.main import main
from kilonova.config.load import load_settings
from kilonova.config.settings import Settings

BROKER = "transport_url = rabbit://control:s3cret@r1:5671,control:s3cret@[::1]/a%20cloud"


class Cloud:
    """A control process's configuration, and the commands that are run with it in the folder of the test."""

    def __init__(self, folder: Path, template: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        shutil.copy(template, folder / "kilonova.db")
        self.configure(f"[DEFAULT]\n{BROKER}\n")

    def configure(self, text: str) -> None:
        database = f"[database]\nconnection = sqlite:///{self.folder / 'kilonova.db'}\n"
        (self.folder / "control.conf").write_text(text + database)

    def run(self, *words: str) -> tuple[int, list[str]]:
        """Return the exit code and the lines that were written."""
        code = main(["compute", *words, "--config-file", "control.conf"])
        written = self._capsys.readouterr()
        return code, [*written.out.splitlines(), *written.err.splitlines()]

    def agents(self) -> dict[str, Any]:
        code, lines = self.run("agents", "--json")
        assert code == 0
        return {agent["name"]: agent for agent in json.loads("\n".join(lines))["agents"]}

    def read(self, name: str) -> Settings:
        """Read the configuration file of an agent as the agent does."""
        return load_settings([str(self.folder / "control.conf"), str(self.folder / name)])


@pytest.fixture
def cloud(
    tmp_path: Path, sqlite_template: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Cloud:
    monkeypatch.chdir(tmp_path)
    return Cloud(tmp_path, sqlite_template, capsys)


def test_the_file_of_an_agent_is_private_and_leads_to_the_same_broker_with_another_account(cloud: Cloud) -> None:
    cloud.configure(f"[DEFAULT]\n{BROKER}\n[oslo_messaging_rabbit]\nssl = true\nheartbeat_timeout_threshold = 7\n")
    code, lines = cloud.run("enrol", "rack.1", "--host", "node1")
    assert code == 0
    file = cloud.folder / "rack.1.conf"
    assert file.stat().st_mode & 0o777 == 0o600
    assert "s3cret" not in file.read_text()
    transport = cloud.read("rack.1.conf").rabbit.transport
    assert transport is not None
    assert transport.tls is not None
    assert (transport.heartbeat_s, transport.url.virtual_host) == (7, "a cloud")
    places = [(each.host, each.port, each.user) for each in transport.url.brokers]
    assert places == [("r1", 5671, "rack.1"), ("::1", None, "rack.1")]
    (password,) = {each.password for each in transport.url.brokers}
    assert password is not None
    assert len(password) >= 32
    assert not [line for line in lines if password in line]
    assert lines == [
        "Agent rack.1 is enrolled for 1 host: node1.",
        "The agent's configuration, with its password, which is stored nowhere else: rack.1.conf",
        "Create the agent's account at the broker:",
        "  (the first command asks for the password, which is in rack.1.conf)",
        "  rabbitmqctl add_user rack.1",
        r"  rabbitmqctl set_permissions -p 'a cloud' rack.1 '^$' '^from\.rack\.1$' '^to\.rack\.1$'",
        """  rabbitmqctl set_user_limits rack.1 '{"max-connections": 8, "max-channels": 16}'""",
    ]


def test_definitions_hold_the_account_its_rights_and_a_salted_hash_only(cloud: Cloud) -> None:
    code, lines = cloud.run(
        "enrol", "rack1", "--host", "node1", "--output", "a.conf", "--definitions", "the broker.json"
    )
    assert (code, lines[-1]) == (0, "  rabbitmqctl import_definitions 'the broker.json'")
    assert (cloud.folder / "the broker.json").stat().st_mode & 0o777 == 0o600
    text = (cloud.folder / "the broker.json").read_text()
    url = cloud.read("a.conf").rabbit.transport_url
    assert url is not None
    password = url.brokers[0].password
    assert password is not None
    assert password not in text
    defined = json.loads(text)
    (user,) = defined["users"]
    stored = base64.b64decode(user["password_hash"])
    assert stored[4:] == hashlib.sha256(stored[:4] + password.encode()).digest()
    assert (user["name"], user["tags"]) == ("rack1", "")
    assert set(user["limits"]) == {"max-connections", "max-channels"}
    (rights,) = defined["permissions"]
    assert rights == {
        "user": "rack1",
        "vhost": "a cloud",
        "configure": "^$",
        "write": r"^from\.rack1$",
        "read": r"^to\.rack1$",
    }
    assert {queue["name"] for queue in defined["queues"]} == {"to.rack1", "from.rack1"}


def test_an_agent_with_a_certificate_has_no_password(cloud: Cloud) -> None:
    cloud.configure(f"[DEFAULT]\n{BROKER}\n[oslo_messaging_rabbit]\nssl = true\n")
    files = ("--cert-file", "/etc/kilonova/rack1.pem", "--key-file", "/etc/kilonova/rack1.key")
    code, lines = cloud.run("enrol", "rack1", "--host", "node1", *files, "--definitions", "d.json")
    assert code == 0
    assert "The agent's configuration, with a certificate: rack1.conf" in lines
    text = (cloud.folder / "rack1.conf").read_text()
    assert "transport_url = rabbit://rack1@r1:5671,rack1@[::1]/a%20cloud" in text
    assert "ssl_cert_file = /etc/kilonova/rack1.pem\nssl_key_file = /etc/kilonova/rack1.key\n" in text
    assert json.loads((cloud.folder / "d.json").read_text())["users"][0]["password_hash"] == ""
    code, lines = cloud.run("enrol", "rack2", "--host", "node2", *files)
    assert "  rabbitmqctl add_user rack2 ''" in lines


def test_to_enrol_again_makes_a_new_password_and_adds_hosts(cloud: Cloud) -> None:
    hosts = cloud.folder / "hosts"
    hosts.write_text("# of the second rack\nnode2\n\n  node3  # new\n")
    cloud.run("enrol", "rack1", "--host", "node1")
    first = (cloud.folder / "rack1.conf").read_text()
    code, lines = cloud.run("enrol", "rack1", "--hosts-from", "hosts")
    assert code == 0
    assert lines[0] == "Agent rack1 is enrolled for 3 hosts: node1, node2, node3."
    assert "  rabbitmqctl change_password rack1" in lines
    assert (cloud.folder / "rack1.conf").read_text() != first
    assert cloud.run("enrol", "rack1", "--remove-host", "node2")[1][0] == (
        "Agent rack1 is enrolled for 2 hosts: node1, node3."
    )


def test_revoked_agents_are_listed_and_may_be_enrolled_again(cloud: Cloud) -> None:
    assert cloud.run("agents")[1] == ["No agent is enrolled. Enrol one: kilonova compute enrol NAME --host HOST"]
    many = [word for number in range(1, 8) for word in ("--host", f"node{number}")]
    cloud.run("enrol", "rack1", *many)
    code, lines = cloud.run("revoke", "rack1")
    assert code == 0
    assert "  rabbitmqctl delete_user rack1" in lines
    assert cloud.agents()["rack1"]["revoked_at"] is not None
    assert re.search(r"rack1 +7 +node1, node2, node3 … node7 +\d{4}-", cloud.run("agents")[1][2])
    code, lines = cloud.run("enrol", "rack1")
    assert "  rabbitmqctl add_user rack1" in lines
    assert cloud.agents()["rack1"]["revoked_at"] is None


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["enrol", "rack2", "--host", "node1"], "Host node1 has agent rack1."),
        (["enrol", "rack2"], "Agent rack2 needs at least one host."),
        (["enrol", "rack2", "--host", "no/de"], "Host name 'no/de' is not valid"),
        (["enrol", "../x", "--host", "node2"], "An agent cannot be named '../x'"),
        (["enrol", "x" * 129, "--host", "node2"], "An agent cannot be named 'xxx"),
        (["enrol", "control", "--host", "node2"], "The user control of the broker is used by control processes"),
        (["enrol", "rack2", "--host", "node2", "--output", "nowhere/a.conf"], "nowhere/a.conf cannot be written"),
        (["enrol", "rack2", "--host", "node2", "--output", "."], ". is a folder"),
        (["enrol", "rack2", "--hosts-from", "nowhere"], "--hosts-from nowhere cannot be read: No such file"),
        (["enrol", "rack2", "--host", "node2", "--key-file", "k"], "--key-file needs --cert-file"),
        (["enrol", "rack2", "--host", "node2", "--cert-file", "c"], "Certificates need [oslo_messaging_rabbit] ssl"),
        (["revoke", "rack2"], "Agent rack2 is not enrolled."),
    ],
)
def test_what_cannot_be_is_one_line_and_changes_nothing(cloud: Cloud, words: list[str], complaint: str) -> None:
    cloud.run("enrol", "rack1", "--host", "node1")
    before = cloud.agents(), sorted(cloud.folder.glob("*.conf"))
    code, lines = cloud.run(*words)
    assert (code, len(lines)) == (2, 1)
    assert lines[0].startswith(f"kilonova: {complaint}")
    assert (cloud.agents(), sorted(cloud.folder.glob("*.conf"))) == before


def test_without_a_broker_nobody_is_enrolled(cloud: Cloud) -> None:
    cloud.configure("")
    assert cloud.run("enrol", "rack1", "--host", "node1") == (
        2,
        ["kilonova: [DEFAULT] transport_url is not set: agent processes need a broker."],
    )
    assert cloud.agents() == {}
