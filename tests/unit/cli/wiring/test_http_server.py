# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.cli.up.supervisor import UpOptions, run
from kilonova.cli.wiring.addresses import Address
from kilonova.cli.wiring.http_server import limits_of, open_port
from kilonova.config.load import load_settings
from kilonova.config.settings import Settings
from kilonova.errors import ConfigurationError


def load(folder: Path, text: str) -> Settings:
    file = folder / "kilonova.conf"
    file.write_text(f"[database]\nconnection = sqlite:///{folder}/k.db\n{text}")
    return load_settings([str(file)])


def test_the_limits_are_those_of_the_settings(tmp_path: Path) -> None:
    text = (
        "[api]\nheader_timeout = 3\nbody_timeout = 4\nidle_timeout = 5\nmax_connections = 600\n"
        "[oslo_middleware]\nmax_request_body_size = 1\n[placement]\nmax_request_body_size = 2\n"
        "[operator]\nmax_request_body_size = 3\n"
    )
    limits = limits_of(load(tmp_path, text))
    assert (limits.head_s, limits.body_s, limits.idle_s, limits.connections) == (3.0, 4.0, 5.0, 600)
    paths = ("/compute/v2.1/servers", "/placement/reshaper", "/operator/v1/explain", "/placements", "/%70lacement/x")
    assert [limits.body_of(path) for path in paths] == [1, 2, 3, 1, 1]
    assert limits.token_needed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[api]\nkey_file = /k.pem\n", "key_file is set without cert_file"),
        ("[api]\ncert_file = /no/c.pem\n", "/no/c.pem"),
    ],
)
def test_what_cannot_be_served_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        open_port(load(tmp_path, text))


def test_the_embedded_cloud_says_that_it_does_not_serve_https(tmp_path: Path) -> None:
    (tmp_path / "more.conf").write_text("[api]\ncert_file = /c.pem\n")
    here = Address("127.0.0.1", 1)
    options = UpOptions(tmp_path / "data", here, here, here, (), config_file=tmp_path / "more.conf")
    with pytest.raises(ConfigurationError, match="cert_file"):
        run(options)
