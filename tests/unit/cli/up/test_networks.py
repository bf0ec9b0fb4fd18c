# SPDX-License-Identifier: Apache-2.0
import configparser
from dataclasses import replace

from kilonova.bundled_services.settings import load_keystone, load_neutron
from kilonova.cli.up import cloud_files
from kilonova.cli.up.cloud_files import Cloud
from kilonova.cli.up.networks import NetworkPart
from kilonova.cli.wiring.addresses import Address
from kilonova.config.load import load_settings

ADDRESS = Address("127.0.0.1", 4)


def _part(cloud: Cloud) -> NetworkPart:
    return NetworkPart(cloud.folder, ADDRESS, "python")


def test_neutron_gets_an_account_of_its_own_which_lasts(cloud: Cloud) -> None:
    assert cloud_files.accounts(cloud.folder).neutron is None
    people = cloud_files.accounts(cloud.folder, networks=True)
    assert people.neutron is not None
    assert people.neutron.roles == ("service",)
    assert cloud_files.accounts(cloud.folder) == people
    settings = load_neutron(_part(cloud).write(cloud, people.neutron))
    assert settings.service == people.neutron
    assert settings.auth_url == "http://127.0.0.1:2/identity"
    assert (cloud.folder / "neutron").stat().st_mode & 0o777 == 0o700


def test_the_catalogue_has_the_network_service_while_it_runs(cloud: Cloud) -> None:
    people = cloud_files.accounts(cloud.folder, networks=True)
    file = cloud.folder / "keystone" / "settings.json"
    cloud_files.write_bundled_settings(replace(cloud, network=ADDRESS), people)
    keystone = load_keystone(file)
    assert ("network", "http://127.0.0.1:4") in {(entry.service_type, entry.url) for entry in keystone.catalog}
    assert not keystone.withdrawn
    cloud_files.write_bundled_settings(cloud, people)
    keystone = load_keystone(file)
    assert "network" not in {entry.service_type for entry in keystone.catalog}
    assert keystone.withdrawn == ("network",)


def test_the_control_process_uses_neutron_with_its_own_user(cloud: Cloud) -> None:
    people = cloud_files.accounts(cloud.folder, networks=True)
    cloud_files.write_conf(cloud, people, parts=[_part(cloud).options(cloud, people)])
    conf = configparser.ConfigParser(interpolation=None)
    conf.read(cloud.conf)
    assert conf["neutron"]["endpoint_override"] == "http://127.0.0.1:4"
    assert conf["neutron"]["username"] == "service"
    assert load_settings([str(cloud.conf)]).neutron.default_floating_pool == "public"
