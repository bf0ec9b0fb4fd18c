# SPDX-License-Identifier: Apache-2.0
"""What a host of another machine's cloud consists of; tests/guests/test_ovn_machines.py starts it."""

from pathlib import Path

import pytest

from kilonova.bundled_services.host_bundle import HostBundle
from kilonova.bundled_services.joined_host import JoinedHost, why_no_host


@pytest.fixture
def joined(tmp_path: Path) -> JoinedHost:
    return JoinedHost(tmp_path / "data", HostBundle(tmp_path, "metal-2", "ssl:192.0.2.1:6642"), "192.0.2.2")


def test_it_is_no_gateway_and_has_no_database_of_ovn(joined: JoinedHost) -> None:
    assert not joined.host.network.is_gateway
    assert {process.name for process in joined.processes} == {"ovn-switch", "ovn-vswitchd", "ovn-controller"}
    assert all(process.ended() for process in joined.processes)


def test_its_programs_reach_the_southbound_database_by_tls(joined: JoinedHost, tmp_path: Path) -> None:
    southbound = joined.host.southbound
    assert southbound.target == "ssl:192.0.2.1:6642"
    assert southbound.files is not None
    assert southbound.files.key.name == "metal-2.key"
    settings = joined.host.metadata_settings()
    assert (settings.southbound, settings.certificate) == (southbound.target, (str(southbound.files.folder), "metal-2"))
    assert str(tmp_path / "metal-2.key") not in southbound.options  # a copy in a folder whose path has no spaces


def test_without_root_there_is_no_host() -> None:
    assert why_no_host(is_root=False) == "kilonova compute join needs root, which may create network namespaces"
