# SPDX-License-Identifier: Apache-2.0
import configparser
import dataclasses
import os
from pathlib import Path

import pytest
import yaml

from kilonova.bundled_services.settings import load_glance, load_keystone
from kilonova.cli.up import cloud_files
from kilonova.cli.up.cloud_files import Cloud
from kilonova.cli.wiring.addresses import Address
from kilonova.errors import ConfigurationError, Unavailable


def test_passwords_are_random_kept_and_private(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        cloud_files.make_folder(folder)
    first = cloud_files.accounts(one)
    assert cloud_files.accounts(one) == first
    assert cloud_files.accounts(other) != first
    passwords = {first.admin.password, first.service.password, first.demo.password}
    assert len(passwords) == 3
    assert min(map(len, passwords)) >= 32


def test_the_member_is_no_administrator_and_has_a_project_of_its_own(cloud: Cloud) -> None:
    people = cloud_files.accounts(cloud.folder)
    assert people.demo.roles == ("member",)
    assert people.demo.project != people.admin.project


def test_everything_with_a_password_is_private(cloud: Cloud) -> None:
    people = cloud_files.accounts(cloud.folder)
    cloud_files.write_conf(cloud, people)
    cloud_files.write_clouds_yaml(cloud, people)
    cloud_files.write_bundled_settings(cloud, people)
    files = [path for path in cloud.folder.rglob("*") if path.is_file()]
    assert len(files) == 5
    for path in files:
        assert path.stat().st_mode & 0o777 == 0o600, path
    for path in cloud.folder.rglob("*/"):
        assert path.stat().st_mode & 0o777 == 0o700, path


def test_clouds_yaml_has_both_clouds(cloud: Cloud) -> None:
    people = cloud_files.accounts(cloud.folder)
    cloud_files.write_clouds_yaml(cloud, people)
    clouds = yaml.safe_load(cloud.clouds_yaml.read_text())["clouds"]
    assert clouds.keys() == {"kilonova", "kilonova-demo"}
    assert clouds["kilonova"] == {
        "auth": {
            "auth_url": "http://127.0.0.1:2/identity",
            "username": "admin",
            "password": people.admin.password,
            "project_name": "admin",
            "user_domain_name": "Default",
            "project_domain_name": "Default",
        },
        "region_name": "RegionOne",
        "identity_api_version": 3,
    }
    assert clouds["kilonova-demo"]["auth"]["project_name"] == "demo"


def test_the_conf_tells_the_control_process_where_everything_is(cloud: Cloud) -> None:
    people = cloud_files.accounts(cloud.folder)
    cloud_files.write_conf(dataclasses.replace(cloud, scenario=Path("/s/fast-io.yaml")), people)
    conf = configparser.ConfigParser(interpolation=None, default_section="")
    conf.read(cloud.conf)
    assert dict(conf["DEFAULT"]) == {
        "log_file": f"{cloud.folder}/log/control.log",
        "log_rotation_type": "size",
        "max_logfile_size_mb": "20",
        "max_logfile_count": "5",
    }
    assert dict(conf["api"]) == {"auth_strategy": "keystone", "bind": "127.0.0.1:1"}
    assert conf["database"]["connection"] == f"sqlite:///{cloud.folder}/kilonova.db"
    assert dict(conf["fake"]) == {
        "hosts": "7",
        "state_dir": f"{cloud.folder}/hypervisors",
        "scenario": "/s/fast-io.yaml",
    }
    assert conf["glance"]["endpoint_override"] == "http://127.0.0.1:3"
    assert conf["keystone_authtoken"]["auth_url"] == "http://127.0.0.1:2/identity"
    assert conf["keystone_authtoken"]["password"] == people.service.password


def test_a_scenarios_options_are_added_and_never_win(cloud: Cloud) -> None:
    options = {
        "api": {"bind": "0.0.0.0:1", "max_limit": 7},
        "filter_scheduler": {"available_filters": ["a.b", "c.d"], "enabled_filters": "B,D"},
    }
    cloud_files.write_conf(cloud, None, options)
    text = cloud.conf.read_text()
    assert "\nbind = 127.0.0.1:1\nmax_limit = 7\n" in text or "\nmax_limit = 7\nbind = 127.0.0.1:1\n" in text
    assert "\navailable_filters = a.b\navailable_filters = c.d\nenabled_filters = B,D\n" in text


def test_without_companions_the_conf_leaves_identity_to_the_operator(cloud: Cloud) -> None:
    cloud_files.write_conf(cloud, None)
    conf = configparser.ConfigParser(interpolation=None)
    conf.read(cloud.conf)
    assert set(conf.sections()) == {"api", "database", "fake", "filter_scheduler", "quota"}
    assert "auth_strategy" not in conf["api"]


def test_the_catalogue_follows_the_addresses(cloud: Cloud) -> None:
    people = cloud_files.accounts(cloud.folder)
    cloud_files.write_bundled_settings(dataclasses.replace(cloud, compute=Address("::1", 9)), people)
    keystone = load_keystone(cloud.folder / "keystone" / "settings.json")
    assert {entry.service_type: entry.url for entry in keystone.catalog} == {
        "identity": "http://127.0.0.1:2/identity",
        "image": "http://127.0.0.1:3",
        "compute": "http://[::1]:9/compute/v2.1",
        "placement": "http://[::1]:9/placement",
        "kilonova": "http://[::1]:9/operator/v1",
    }
    assert load_glance(cloud.folder / "glance" / "settings.json").service == people.service


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    cloud_files.make_folder(tmp_path)
    lock = cloud_files.lock_folder(tmp_path)
    with pytest.raises(Unavailable, match=rf"in use by another `kilonova` \(process {os.getpid()}\)"):
        cloud_files.lock_folder(tmp_path)
    os.close(lock)
    os.close(cloud_files.lock_folder(tmp_path))


def test_a_folder_that_cannot_be_made_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot use the data folder"):
        cloud_files.make_folder(tmp_path / "file" / "data")


def test_a_data_folder_that_was_open_is_closed_and_named(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = tmp_path / "data"
        (folder / "keystone").mkdir(parents=True)
        (folder / "keystone" / "keystone.db").touch(0o644)
    finally:
        os.umask(before)
    exposed = cloud_files.make_folder(folder)
    assert set(exposed) == {folder, folder / "keystone", folder / "keystone" / "keystone.db"}
    assert cloud_files.make_folder(folder) == ()
