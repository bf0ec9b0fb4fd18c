# SPDX-License-Identifier: Apache-2.0
"""The cloud that a command connects to, and the environment of the stock client."""

from pathlib import Path

import pytest
import yaml

from kilonova.cli.cloud.connection import CloudName, find_cloud
from kilonova.errors import ConfigurationError


def clouds_file(folder: Path, auth_url: str = "http://127.0.0.1:9/identity", name: str = "kilonova") -> Path:
    auth = {"auth_url": auth_url, "username": "u", "password": "p", "project_name": "x", "user_domain_name": "Default"}
    clouds = {name: {"auth": {**auth, "project_domain_name": "Default"}, "region_name": "RegionOne"}}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "clouds.yaml"
    path.write_text(yaml.safe_dump({"clouds": clouds}))
    return path


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No cloud is configured: an empty home and an empty environment."""
    for variable in ("OS_CLOUD", "OS_CLIENT_CONFIG_FILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
