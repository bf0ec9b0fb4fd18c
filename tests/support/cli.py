# SPDX-License-Identifier: Apache-2.0
"""Commands that run in the process of the test."""

from pathlib import Path

import pytest
import yaml

from kilonova.cli.main import main


def said_of(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that is to fail, and return the one line of its error."""
    assert main(arguments) == code
    error = capsys.readouterr().err
    assert error.startswith("kilonova: ")
    assert error.count("\n") == 1
    return error


def clouds_file(folder: Path, auth_url: str = "http://127.0.0.1:9/identity", name: str = "kilonova") -> Path:
    """Write a clouds.yaml with one cloud into a folder."""
    auth = {"auth_url": auth_url, "username": "u", "password": "p", "project_name": "x", "user_domain_name": "Default"}
    clouds = {name: {"auth": {**auth, "project_domain_name": "Default"}, "region_name": "RegionOne"}}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "clouds.yaml"
    path.write_text(yaml.safe_dump({"clouds": clouds}))
    return path
