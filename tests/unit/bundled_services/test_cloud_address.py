# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.bundled_services.cloud_address import CloudAddress
from kilonova.errors import ConfigurationError


@pytest.fixture
def noted(tmp_path: Path) -> CloudAddress:
    (tmp_path / "ovn").mkdir()
    return CloudAddress.of_cloud(tmp_path)


def test_hosts_of_other_machines_learn_the_address(noted: CloudAddress) -> None:
    noted.write("ssl:192.0.2.1:6642", ["metal"], tunnels=True)
    assert noted.southbound_for("metal-2") == "ssl:192.0.2.1:6642"
    with pytest.raises(ConfigurationError, match="metal is a host of the cloud's own machine"):
        noted.southbound_for("metal")


def test_a_cloud_without_tunnels_takes_no_host(noted: CloudAddress) -> None:
    noted.write("ssl:192.0.2.1:6642", ["metal", "metal-2"], tunnels=False)
    with pytest.raises(ConfigurationError, match="--libvirt-hosts must be 1"):
        noted.southbound_for("metal-3")


def test_a_cloud_that_does_not_listen_takes_no_host(noted: CloudAddress) -> None:
    noted.write("ssl:192.0.2.1:6642", ["metal"], tunnels=True)
    noted.remove()
    noted.remove()
    with pytest.raises(ConfigurationError, match="--ovn-address ADDRESS` first"):
        noted.southbound_for("metal-2")
