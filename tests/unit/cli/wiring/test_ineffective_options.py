# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.cli.wiring.ineffective_options import ineffective_options
from kilonova.config.load import load_settings


def told(folder: Path, *texts: str) -> list[str]:
    files = []
    for number, text in enumerate(texts):
        file = folder / f"{number}.conf"
        file.write_text(text)
        files.append(str(file))
    settings = load_settings(files)
    return [sentence.removeprefix(f"{folder}/") for sentence in ineffective_options(settings.conf, settings.scheduler)]


BASE = "[database]\nconnection = sqlite://\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[filter_scheduler]\nenable_filters = A\n",
            "[filter_scheduler] enable_filters has no effect: the option does",
        ),
        (
            "[filter_shceduler]\nenabled_filters = A\n",
            "[filter_shceduler] enabled_filters has no effect: the option does",
        ),
        ("[DEFAULT]\ndebgu = true\n", "[DEFAULT] debgu has no effect: the option does not exist."),
        ("[oslo_messaging_rabbit]\nconn_pool_ttl = 7\n", "conn_pool_ttl has no effect: each process has one"),
        ("[scheduler]\nworkers = 4\n", "[scheduler] workers has no effect: each control process is API, scheduler and"),
        ("[conductor]\nworkers = 4\n", "[conductor] workers has no effect: each control process is API, scheduler and"),
        ("[filter_scheduler]\nmax_io_ops_per_host = 4\n", "IoOpsFilter and AggregateIoOpsFilter are not enabled."),
        (
            "[DEFAULT]\nscheduler_host_manager = x\n",
            "[DEFAULT] scheduler_host_manager has no effect: Nova removed it, too.",
        ),
        ("[filter_scheduler]\npci_in_placement = true\n", "pci_in_placement has no effect: PCI devices are counted in"),
        (
            "[filter_scheduler]\ntrack_instance_changes = false\n",
            "Hosts send no instance updates that could be turned off, and no filter queries",
        ),
        (
            "[filter_scheduler]\ntrack_instance_changes = true\n",
            "track_instance_changes has no effect: the scheduler always knows exactly which servers are on a host",
        ),
        ("[DEFAULT]\nscheduler_instance_sync_interval = 60\n", "so there is nothing to synchronize."),
        ("[filter_scheduler]\nisolated_hosts = a\n", "IsolatedHostsFilter is not enabled."),
    ],
)
def test_an_option_without_effect_is_named_with_its_file(tmp_path: Path, text: str, expected: str) -> None:
    (sentence,) = told(tmp_path, BASE, text)
    assert sentence.startswith("1.conf: ")
    assert expected in sentence


@pytest.mark.parametrize(
    "text",
    [
        "[keystone_authtoken]\nauth_url = x\nuser = y\n[oslo_policy]\npolicy_file = p\n[cors]\nallowed_origin = z\n",
        "[DEFAULT]\nscheduler_default_filters = ComputeFilter\nscheduler_max_attempts = 2\nquota_cores = 7\n",
        "[filter_scheduler]\nenabled_filters = IoOpsFilter\nmax_io_ops_per_host = 4\n",
        "[DEFAULT]\nosapi_compute_workers = 1\n",
        "[oslo_messaging_notifications]\ndriver = messagingv2\n[oslo_messaging_rabbit]\nconn_pool_ttl = 7\n",
        '[metrics]\nweight_multiplier = 2.0\n[pci]\nalias = {"name": "a", "vendor_id": "10de", "product_id": "20b0"}\n',
    ],
)
def test_options_that_work_and_those_of_libraries_are_not_named(tmp_path: Path, text: str) -> None:
    assert told(tmp_path, BASE, text) == []


def test_what_two_files_set_is_named_once(tmp_path: Path) -> None:
    assert len(told(tmp_path, BASE + "[x]\ny = 1\n", "[x]\ny = 2\n")) == 1
