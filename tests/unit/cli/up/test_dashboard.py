# SPDX-License-Identifier: Apache-2.0
"""The dashboard of `kilonova up`."""

from pathlib import Path

import pytest

from kilonova.cli.main import main
from kilonova.cli.up.dashboard import DashboardPart
from kilonova.cli.wiring.addresses import Address
from kilonova.config.dashboard import load_dashboard_settings


def test_it_has_a_file_of_its_own(tmp_path: Path) -> None:
    part = DashboardPart(tmp_path, Address("::1", 8791))
    file = part.write("http://[::1]:5000/identity")
    assert file.stat().st_mode & 0o777 == 0o600
    settings, log = load_dashboard_settings([str(file)])
    assert (settings.host, settings.port, settings.auth_url) == ("::1", 8791, "http://[::1]:5000/identity")
    assert log.file is not None
    assert "http://[::1]:8791/" in part.announcement(Path("clouds.yaml"))


def test_it_needs_the_own_keystone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "more.conf"
    file.write_text("")
    assert main(["up", "--dashboard", "--no-companions", "--config-file", str(file)]) == 2
    assert "--dashboard needs" in capsys.readouterr().err
