# SPDX-License-Identifier: Apache-2.0
import configparser
from dataclasses import replace
from pathlib import Path

from kilonova.bundled_services.neutron_conf import conf_text, policy_text
from kilonova.bundled_services.settings import Account, NeutronSettings, OvnDatabases

SERVICE = Account("neutron", "p%d", "service", ("service",))
SETTINGS = NeutronSettings("/d", "127.0.0.1", 9696, "http://h/identity", "RegionOne", SERVICE)


def _parsed(settings: NeutronSettings) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, default_section="(none)")
    parser.read_string(conf_text(settings, Path("/d/neutron.db"), Path("/e/api-paste.ini")))
    return parser


def test_tokens_are_validated_and_the_compute_service_notified_with_the_account() -> None:
    conf = _parsed(SETTINGS)
    assert conf["DEFAULT"]["auth_strategy"] == "keystone"
    assert conf["DEFAULT"]["notify_nova_on_port_status_changes"] == "true"
    assert {conf[section]["username"] for section in ("keystone_authtoken", "nova")} == {"neutron"}
    assert conf["nova"]["password"] == "p%d"
    assert conf["ml2"]["mechanism_drivers"] == "kilonova_simulated"
    assert policy_text(SETTINGS) == "{}\n"


def test_without_keystone_requests_need_no_token() -> None:
    without = replace(SETTINGS, auth_url="")
    conf = _parsed(without)
    assert conf["DEFAULT"]["auth_strategy"] == "noauth"
    assert conf["DEFAULT"]["notify_nova_on_port_data_changes"] == "false"
    assert not conf.has_section("keystone_authtoken")
    assert "create_port_binding" in policy_text(without)


def test_ports_of_real_guests_are_bound_by_ovn() -> None:
    databases = OvnDatabases("unix:/n", "unix:/s")
    conf = _parsed(replace(SETTINGS, mechanism="ovn", ovn=databases))
    assert conf["ml2"]["mechanism_drivers"] == "ovn"
    assert conf["DEFAULT"]["service_plugins"].startswith("ovn-router,")
    assert (conf["ovn"]["ovn_nb_connection"], conf["ovn"]["ovn_sb_connection"]) == ("unix:/n", "unix:/s")
    assert not _parsed(SETTINGS).has_section("ovn")
