# SPDX-License-Identifier: Apache-2.0
import re
from pathlib import Path

import pytest

from kilonova.config import Settings, load, split_bind
from kilonova.errors import ConfigurationError
from kilonova.scheduler.settings import DEFAULT_FILTERS

MINIMAL = "[database]\nconnection = sqlite:////tmp/k.db\n"


def read(tmp_path: Path, *contents: str) -> Settings:
    files = []
    for number, content in enumerate(contents):
        file = tmp_path / f"{number}.conf"
        file.write_text(content)
        files.append(str(file))
    return load(files)


def test_defaults_are_those_that_operators_know(tmp_path: Path) -> None:
    settings = read(tmp_path, MINIMAL)
    assert settings.database_url == "sqlite:////tmp/k.db"
    assert (settings.api.auth_strategy, settings.api.bind_host, settings.api.bind_port) == (
        "keystone",
        "127.0.0.1",
        8774,
    )
    assert settings.api.max_limit == 1000
    assert settings.compute.default_availability_zone == "nova"
    assert settings.compute.service_down_time_s == 60
    assert settings.compute.initial_cpu_allocation_ratio == 4.0
    assert settings.compute.cpu_allocation_ratio is None
    assert settings.scheduler.max_attempts == 3
    assert settings.scheduler.enabled_filters == DEFAULT_FILTERS
    assert settings.scheduler.service_down_time == 60


def test_later_files_win(tmp_path: Path) -> None:
    settings = read(tmp_path, MINIMAL + "[api]\nmax_limit = 5\nthreads = 2\n", "[api]\nmax_limit = 7\n")
    assert (settings.api.max_limit, settings.api.threads) == (7, 2)


def test_the_names_that_older_documents_use(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        "[DEFAULT]\nscheduler_default_filters = ComputeFilter, RamFilter\nscheduler_max_attempts = 9\n"
        "scheduler_available_filters = a.b\nscheduler_available_filters = c.d\n"
        "scheduler_host_subset_size = 4\nscheduler_weight_classes = e.f\n" + MINIMAL,
    )
    assert settings.scheduler.enabled_filters == ("ComputeFilter", "RamFilter")
    assert settings.scheduler.available_filters == ("a.b", "c.d")
    assert settings.scheduler.weight_classes == ("e.f",)
    assert (settings.scheduler.max_attempts, settings.scheduler.host_subset_size) == (9, 4)


def test_numbers_of_rules(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        MINIMAL + "[filter_scheduler]\nram_weight_multiplier = -2.5\nmax_io_ops_per_host = 3\n"
        "shuffle_best_same_weighed_hosts = true\n",
    )
    assert settings.scheduler.ram_weight_multiplier == -2.5
    assert settings.scheduler.max_io_ops_per_host == 3
    assert settings.scheduler.shuffle_best_same_weighed_hosts is True


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "[database] connection is not set"),
        (MINIMAL + "[api]\nbind = nowhere\n", "[api] bind must be HOST:PORT"),
        (MINIMAL + "[api]\nbind = host:0\n", "[api] bind must be HOST:PORT"),
        (MINIMAL + "[api]\nbind = host:²\n", "[api] bind must be HOST:PORT"),
        (MINIMAL + "[api]\nauth_strategy = none\n", "auth_strategy"),
        (MINIMAL + "[api]\nmax_limit = many\n", "max_limit"),
        (MINIMAL + "[api]\nmax_limit = 0\n", "max_limit"),
        (MINIMAL + "[scheduler]\nmax_attempts = 0\n", "max_attempts"),
        (MINIMAL + "[filter_scheduler]\nhost_subset_size = 0\n", "host_subset_size"),
        (MINIMAL + "[DEFAULT]\nservice_down_time = -1\n", "service_down_time"),
        (MINIMAL + "[pci]\nalias = gpu\n", "[pci] alias = gpu: it is no JSON"),
        (MINIMAL + "[filter_scheduler]\npci_weight_multiplier = -1\n", "pci_weight_multiplier"),
        ("this is no configuration", "0.conf"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        read(tmp_path, content)


def test_aliases_of_pci_devices(tmp_path: Path) -> None:
    values = [f'{{"name": "{name}", "vendor_id": "10de", "product_id": "1db4"}}' for name in ("a", "b")]
    lines = "".join(f"alias = {value}\n" for value in values)
    assert read(tmp_path, f"{MINIMAL}[pci]\n{lines}").scheduler.pci_alias == tuple(values)
    assert read(tmp_path, f"[DEFAULT]\npci_alias = {values[0]}\n{MINIMAL}").scheduler.pci_alias == (values[0],)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"missing\.conf"):
        load([str(tmp_path / "missing.conf")])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:8774", ("::1", 8774)), ("cloud.example:1", ("cloud.example", 1))],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    assert split_bind(text, "bind") == expected


def test_settings_cannot_be_changed(tmp_path: Path) -> None:
    settings = read(tmp_path, MINIMAL)
    with pytest.raises(AttributeError):
        settings.debug = True  # type: ignore[misc]
