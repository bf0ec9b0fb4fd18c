# SPDX-License-Identifier: Apache-2.0
"""The cloud that a command connects to, and the environment of the stock client."""

from pathlib import Path

import pytest

from kilonova.cli.cloud.connection import CloudName, find_cloud
from kilonova.errors import ConfigurationError
from support.cli import clouds_file


def test_the_cloud_is_the_named_folders_then_the_environments_then_the_default_folders(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = clouds_file(nowhere / "named")
    usual = clouds_file(nowhere / "share" / "kilonova")
    assert find_cloud(nowhere / "named", None) == CloudName("kilonova", named)
    assert find_cloud(nowhere / "named", "other") == CloudName("other", named)
    assert find_cloud(None, None) == CloudName("kilonova", usual)
    assert find_cloud(None, "mine") == CloudName("mine", None)
    monkeypatch.setenv("OS_CLOUD", "mine")
    assert find_cloud(None, None) == CloudName("mine", None)
    assert find_cloud(nowhere / "named", None) == CloudName("kilonova", named)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", "/elsewhere.yaml")
    assert find_cloud(None, None) == CloudName("mine", Path("/elsewhere.yaml"))
    with pytest.raises(ConfigurationError, match=r"has no clouds\.yaml"):
        find_cloud(nowhere / "empty", None)


def test_a_client_gets_this_cloud_and_nothing_else_of_openstack(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_TOKEN", "secret")
    environment = CloudName("c", Path("/f.yaml")).environment
    assert {name: value for name, value in environment.items() if name.startswith("OS_")} == {
        "OS_CLOUD": "c",
        "OS_CLIENT_CONFIG_FILE": "/f.yaml",
    }
