# SPDX-License-Identifier: Apache-2.0
import re
from pathlib import Path
from typing import Any

import pytest

from kilonova.config.address import parse_address
from kilonova.config.configuration import public_options
from kilonova.config.host_resources import HostResourceSettings
from kilonova.config.load import load_agent_settings, load_settings
from kilonova.config.settings import Settings
from kilonova.errors import ConfigurationError
from kilonova.scheduler.settings import DEFAULT_FILTERS

MINIMAL = "[database]\nconnection = sqlite:////tmp/k.db\n"


def read(tmp_path: Path, *contents: str) -> Settings:
    files = []
    for number, content in enumerate(contents):
        file = tmp_path / f"{number}.conf"
        file.write_text(content)
        files.append(str(file))
    return load_settings(files)


def test_defaults_are_those_that_operators_know(tmp_path: Path) -> None:
    settings = read(tmp_path, MINIMAL)
    assert settings.database.connection == "sqlite:////tmp/k.db"
    assert (settings.api.auth_strategy, *settings.api.bind) == (
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
        "scheduler_host_subset_size = 4\nscheduler_weight_classes = e.f\nscheduler_driver = g.h\n" + MINIMAL,
    )
    assert settings.scheduler.enabled_filters == ("ComputeFilter", "RamFilter")
    assert settings.scheduler.available_filters == ("a.b", "c.d")
    assert settings.scheduler.weight_classes == ("e.f",)
    assert settings.scheduler.driver == "g.h"
    assert (settings.scheduler.max_attempts, settings.scheduler.host_subset_size) == (9, 4)


#: Every scheduling option that operators know from nova.conf: group, name, default, least value.
KNOWN: tuple[tuple[str, str, Any, float | None], ...] = (
    ("scheduler", "max_attempts", 3, 1),
    ("scheduler", "discover_hosts_in_cells_interval", -1, -1),
    ("scheduler", "max_placement_results", 1000, 1),
    ("scheduler", "workers", None, 0),
    ("scheduler", "query_placement_for_routed_network_aggregates", False, None),
    ("scheduler", "limit_tenants_to_placement_aggregate", False, None),
    ("scheduler", "placement_aggregate_required_for_tenants", False, None),
    ("scheduler", "query_placement_for_image_type_support", False, None),
    ("scheduler", "enable_isolated_aggregate_filtering", False, None),
    ("scheduler", "image_metadata_prefilter", False, None),
    ("filter_scheduler", "host_subset_size", 1, 1),
    ("filter_scheduler", "max_io_ops_per_host", 8, None),
    ("filter_scheduler", "max_instances_per_host", 50, 1),
    ("filter_scheduler", "track_instance_changes", True, None),
    ("filter_scheduler", "available_filters", ["kilonova.scheduler.filters.all_filters"], None),
    ("filter_scheduler", "enabled_filters", list(DEFAULT_FILTERS), None),
    ("filter_scheduler", "weight_classes", ["kilonova.scheduler.weighers.all_weighers"], None),
    ("filter_scheduler", "ram_weight_multiplier", 1.0, None),
    ("filter_scheduler", "cpu_weight_multiplier", 1.0, None),
    ("filter_scheduler", "disk_weight_multiplier", 1.0, None),
    ("filter_scheduler", "hypervisor_version_weight_multiplier", 1.0, None),
    ("filter_scheduler", "num_instances_weight_multiplier", 0.0, None),
    ("filter_scheduler", "io_ops_weight_multiplier", -1.0, None),
    ("filter_scheduler", "image_props_weight_multiplier", 0.0, None),
    ("filter_scheduler", "image_cache_weight_multiplier", 0.0, None),
    ("filter_scheduler", "image_props_weight_setting", [], None),
    ("filter_scheduler", "pci_weight_multiplier", 1.0, 0.0),
    ("filter_scheduler", "soft_affinity_weight_multiplier", 1.0, 0.0),
    ("filter_scheduler", "soft_anti_affinity_weight_multiplier", 1.0, 0.0),
    ("filter_scheduler", "build_failure_weight_multiplier", 1000000.0, None),
    ("filter_scheduler", "cross_cell_move_weight_multiplier", 1000000.0, None),
    ("filter_scheduler", "shuffle_best_same_weighed_hosts", False, None),
    ("filter_scheduler", "image_properties_default_architecture", None, None),
    ("filter_scheduler", "isolated_images", [], None),
    ("filter_scheduler", "isolated_hosts", [], None),
    ("filter_scheduler", "restrict_isolated_hosts_to_isolated_images", True, None),
    ("filter_scheduler", "aggregate_image_properties_isolation_namespace", None, None),
    ("filter_scheduler", "aggregate_image_properties_isolation_separator", ".", None),
    ("filter_scheduler", "pci_in_placement", False, None),
    ("metrics", "weight_multiplier", 1.0, None),
    ("metrics", "weight_setting", [], None),
    ("metrics", "required", True, None),
    ("metrics", "weight_of_unavailable", -10000.0, None),
    ("DEFAULT", "cpu_allocation_ratio", None, 0.0),
    ("DEFAULT", "ram_allocation_ratio", None, 0.0),
    ("DEFAULT", "disk_allocation_ratio", None, 0.0),
    ("DEFAULT", "initial_cpu_allocation_ratio", 4.0, 0.0),
    ("DEFAULT", "initial_ram_allocation_ratio", 1.0, 0.0),
    ("DEFAULT", "initial_disk_allocation_ratio", 1.0, 0.0),
    ("DEFAULT", "reserved_host_memory_mb", 512, 0),
    ("DEFAULT", "default_availability_zone", "nova", None),
    ("DEFAULT", "default_schedule_zone", None, None),
    ("DEFAULT", "internal_service_availability_zone", "internal", None),
    ("DEFAULT", "service_down_time", 60, 1),
    ("DEFAULT", "report_interval", 10, 1),
    ("scheduler", "driver", "filter_scheduler", None),
    ("DEFAULT", "scheduler_host_manager", None, None),
    ("DEFAULT", "scheduler_json_config_location", None, None),
    ("cinder", "cross_az_attach", True, None),
    ("workarounds", "disable_group_policy_check_upcall", False, None),
    ("workarounds", "disable_fallback_pcpu_query", False, None),
    ("compute", "consecutive_build_service_disable_threshold", 10, None),
)


@pytest.mark.parametrize(("group", "name", "default", "least"), KNOWN)
def test_an_option_has_the_default_and_the_bounds_it_is_known_for(
    tmp_path: Path, group: str, name: str, default: Any, least: float | None
) -> None:
    assert public_options(read(tmp_path, MINIMAL).conf)[group][name] == default
    if least is not None:
        assert public_options(read(tmp_path, f"{MINIMAL}[{group}]\n{name} = {least}\n").conf)[group][name] == least
        with pytest.raises(ConfigurationError, match=name):
            read(tmp_path, f"{MINIMAL}[{group}]\n{name} = {least - 1}\n")


def test_metrics_and_zones_reach_the_rules(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = read(
        tmp_path,
        "[DEFAULT]\ndefault_availability_zone = home\n" + MINIMAL + "[metrics]\n"
        "weight_multiplier = 2.0\nweight_setting = cpu=1.0, power\nrequired = false\nweight_of_unavailable = -1.0\n",
    ).scheduler
    assert (settings.metrics_weight_multiplier, settings.metrics_weight_of_unavailable) == (2.0, -1.0)
    assert (settings.metrics_weight_setting, settings.metrics_required) == (("cpu=1.0", "power"), False)
    assert settings.default_availability_zone == "home"
    assert "[metrics] weight_setting: ignored values that are not name=ratio: power" in caplog.text


def test_numbers_of_rules(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        MINIMAL + "[filter_scheduler]\nram_weight_multiplier = -2.5\nmax_io_ops_per_host = 3\n"
        "shuffle_best_same_weighed_hosts = true\n",
    )
    assert settings.scheduler.ram_weight_multiplier == -2.5
    assert settings.scheduler.max_io_ops_per_host == 3
    assert settings.scheduler.shuffle_best_same_weighed_hosts is True


def test_options_of_request_filters_are_in_the_groups_where_nova_has_them(tmp_path: Path) -> None:
    assert not read(tmp_path, MINIMAL).scheduler.image_metadata_prefilter
    settings = read(
        tmp_path,
        MINIMAL + "[scheduler]\nimage_metadata_prefilter = true\nquery_placement_for_image_type_support = true\n"
        "query_placement_for_routed_network_aggregates = true\n[workarounds]\ndisable_fallback_pcpu_query = true\n",
    ).scheduler
    assert settings.image_metadata_prefilter
    assert settings.query_placement_for_image_type_support
    assert settings.query_placement_for_routed_network_aggregates
    assert settings.disable_fallback_pcpu_query


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "[database] connection is not set"),
        (MINIMAL + "[api]\nbind = nowhere\n", "[api] bind: The address must be HOST:PORT"),
        (MINIMAL + "[api]\nbind = host:0\n", "[api] bind: The address must be HOST:PORT"),
        (MINIMAL + "[api]\nbind = host:²\n", "[api] bind: The address must be HOST:PORT"),
        (MINIMAL + "[api]\nauth_strategy = none\n", "auth_strategy"),
        (MINIMAL + "[api]\nmax_limit = many\n", "max_limit"),
        (MINIMAL + "[api]\nmax_limit = 0\n", "max_limit"),
        (MINIMAL + "[scheduler]\nmax_attempts = 0\n", "max_attempts"),
        (MINIMAL + "[filter_scheduler]\nhost_subset_size = 0\n", "host_subset_size"),
        (MINIMAL + "[DEFAULT]\nservice_down_time = -1\n", "service_down_time"),
        (MINIMAL + "[pci]\nalias = gpu\n", "[pci] alias = gpu: the value is not valid JSON"),
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


def test_what_hosts_of_real_guests_offer(tmp_path: Path) -> None:
    content = MINIMAL + (
        "[compute]\ncpu_shared_set = 0-3,^2\ncpu_dedicated_set = 8\nimage_type_exclude_list = vmdk\n"
        '[pci]\ndevice_spec = {"vendor_id": "10de"}\npassthrough_whitelist = {"vendor_id": "8086"}\n'
    )
    resources = read(tmp_path, content).host_resources
    assert (resources.cpu_shared_set, resources.cpu_dedicated_set) == ({0, 1, 3}, {8})
    assert resources.image_type_exclude_list == ("vmdk",)
    assert '{"vendor_id": "10de"}' in resources.device_spec
    assert read(tmp_path, MINIMAL).host_resources == HostResourceSettings()
    with pytest.raises(ConfigurationError, match=r"\[compute\] cpu_shared_set: The CPU list is invalid"):
        read(tmp_path, MINIMAL + "[compute]\ncpu_shared_set = all\n")


def test_each_physical_network_has_a_section_with_the_numa_cells_near_its_card(tmp_path: Path) -> None:
    near = "[neutron_physnet_public]\nnuma_nodes = 0-1\n[neutron_tunnel]\nnuma_nodes = 1\n"
    resources = read(tmp_path, f"{MINIMAL}[neutron]\nphysnets = public, storage\n{near}").host_resources
    assert resources.physnet_nodes == {"public": {0, 1}, "storage": frozenset()}
    assert resources.tunnel_nodes == {1}
    with pytest.raises(ConfigurationError, match=r"\[neutron_physnet_x\] numa_nodes: The CPU list is invalid"):
        read(tmp_path, f"{MINIMAL}[neutron]\nphysnets = x\n[neutron_physnet_x]\nnuma_nodes = all\n")


def test_secrets_that_agents_do_not_need_are_named(tmp_path: Path) -> None:
    secrets = "[keystone_authtoken]\npassword = x\n[neutron]\npassword = x\novs_bridge = br7\n"
    (tmp_path / "agent.conf").write_text(MINIMAL + secrets)
    settings = load_agent_settings([str(tmp_path / "agent.conf")])
    assert settings.needless == ("[database] connection", "[keystone_authtoken] password", "[neutron] password")
    assert settings.libvirt.ovs_bridge == "br7"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"missing\.conf"):
        load_settings([str(tmp_path / "missing.conf")])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:8774", ("::1", 8774)), ("cloud.example:1", ("cloud.example", 1))],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected
    assert str(parse_address(text)) == text


def test_settings_cannot_be_changed(tmp_path: Path) -> None:
    settings = read(tmp_path, MINIMAL)
    with pytest.raises(AttributeError):
        settings.log = settings.log  # type: ignore[misc]


def test_the_broker_as_operators_write_it(tmp_path: Path) -> None:
    assert read(tmp_path, MINIMAL).rabbit.transport is None
    url = "[DEFAULT]\ntransport_url = rabbit://a:x%40y%2C@r1,a:z@r2:5673/nova\n"
    more = "[oslo_messaging_rabbit]\nrabbit_retry_interval = 3\nrabbit_login_method = PLAIN\n"
    settings = read(tmp_path, url + more + MINIMAL)
    transport = settings.rabbit.transport
    assert transport is not None
    assert (transport.url.virtual_host, transport.login_method, transport.retry_interval_s) == ("nova", "PLAIN", 3.0)
    assert [(each.host, transport.port_of(each)) for each in transport.url.brokers] == [("r1", 5672), ("r2", 5673)]
    assert transport.url.brokers[0].password == "x@y,"
    assert "x@y" not in repr(settings)
    assert "transport_url" not in public_options(settings.conf)["DEFAULT"]


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ("transport_url = http://a:secret@r1", r"\[DEFAULT\] transport_url: The URL must begin with rabbit://"),
        ("transport_url = rabbit://a:secret@r1:port", r"The URL contains 'r1:port', which has an invalid port"),
        ("transport_url = rabbit://a:secret@r1/v?ssl=1", r"set options in \[oslo_messaging_rabbit\]"),
        ("transport_url = rabbit://a@r1", "needs a password for each user"),
        ("[oslo_messaging_rabbit]\nssl_ca_file = /ca.pem", "ssl_ca_file needs ssl = true"),
        (
            "transport_url = rabbit://a:secret@r1\n[oslo_messaging_rabbit]\nssl = true\nssl_ca_file = /nowhere",
            "certificates cannot be used: .*No such file",
        ),
        ("[oslo_messaging_rabbit]\nssl_version = SSLv3", "ssl_version"),
    ],
)
def test_what_the_broker_cannot_be(tmp_path: Path, wrong: str, what: str) -> None:
    with pytest.raises(ConfigurationError, match=what) as raised:
        read(tmp_path, f"[DEFAULT]\n{wrong}\n{MINIMAL}")
    assert "secret" not in str(raised.value)
