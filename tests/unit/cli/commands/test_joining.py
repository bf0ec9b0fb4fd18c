# SPDX-License-Identifier: Apache-2.0
"""``kilonova compute certify`` and ``join`` before anything is started; tests/guests/test_ovn_machines.py starts it."""

from pathlib import Path

import pytest

from kilonova.bundled_services.cloud_address import CloudAddress
from kilonova.bundled_services.host_bundle import read_bundle
from kilonova.cli.main import main


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Data folder of a cloud that hosts of other machines can join."""
    folder = tmp_path / "cloud"
    (folder / "ovn").mkdir(parents=True)
    CloudAddress.of_cloud(folder).write("ssl:192.0.2.1:6642", ["metal"], tunnels=True)
    monkeypatch.chdir(tmp_path)
    return folder


def test_a_bundle_is_written_and_the_next_command_is_printed(cloud: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compute", "certify", "metal-2", "--data", str(cloud)]) == 0
    assert read_bundle(Path("metal-2.bundle")).southbound == "ssl:192.0.2.1:6642"
    assert "  kilonova compute join metal-2.bundle --address ADDRESS" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["certify", "metal", "--data", "cloud"], "metal is a host of the cloud's own machine"),
        (["certify", "metal-2", "--data", "nowhere"], "hosts of other machines cannot reach this cloud"),
        (["certify", "metal-2", "--data", "cloud", "--output", "file"], "--output file is not a folder"),
        (["join", "nowhere", "--address", "192.0.2.2"], "nowhere is no bundle of `kilonova compute certify`"),
        (["join", "bundle", "--address", "here"], "--address here is not an IP address"),
        (["join", "bundle", "--address", "127.0.0.1"], "--address 127.0.0.1 is no IPv4 address"),
        (["join", "bundle", "--address", "192.0.2.2", "--config-file", "none"], "none is not a file"),
        (["join", "bundle", "--address", "192.0.2.2", "--config-file", "other"], "the bundle is for host metal-2"),
    ],
)
def test_bad_input_is_one_line(cloud: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compute", "certify", "metal-2", "--data", str(cloud), "--output", "bundle"]) == 0
    Path("file").touch()
    Path("other").write_text("[DEFAULT]\nhost = metal-3\n")
    capsys.readouterr()
    assert main(["compute", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
