# SPDX-License-Identifier: Apache-2.0
"""Rules from outside, written for Nova and not changed: with the switch they run, without it they are not found."""

import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tests.unit.scheduler.small_cloud import aggregate, flavor, host, request, table

from kilonova.cli.wiring import nova_modules
from kilonova.cli.wiring.rules import Rules, load_rules
from kilonova.config.configuration import shared_conf
from kilonova.config.load import load_settings
from kilonova.errors import ConfigurationError
from kilonova.model.aggregate import Aggregate
from kilonova.model.server_migration import MoveKind
from kilonova.scheduler.resources import with_resources

PLUGINS = Path(__file__).with_name("nova_plugins")
HOSTS = table(
    host("rack1-a", num_instances=3),
    host("rack1-b", num_instances=3, failed_builds=4, used={"MEMORY_MB": 6500}),
    host("rack2-a", num_instances=1, failed_builds=2),
    host("rack2-b", num_instances=4),
    aggregates=(
        aggregate(1, ("rack1-a", "rack1-b"), rack_projects="p1, p2"),
        aggregate(2, ("rack2-a",), windows="2019,2022", ram_headroom_mb="2000"),
        aggregate(3, ("rack2-b",), least_failed_weight_multiplier="-1", ram_headroom_mb="lots"),
        Aggregate(4, "uuid-4", "blue", ("rack1-b", "rack2-b"), {}),
    ),
)
EVERYONE = {"rack1-a", "rack1-b", "rack2-a", "rack2-b"}
Load = Callable[[str], Rules]


@pytest.fixture
def load_with(tmp_path: Path) -> Iterator[Load]:
    """Loads the rules of a configuration; afterwards nothing of Nova is left in the process."""
    known, path = set(sys.modules), list(sys.path)

    def loaded(more: str) -> Rules:
        file = tmp_path / "kilonova.conf"
        file.write_text(f"[database]\nconnection = sqlite://\n[scheduler]\nnova_import_compat = true\n{more}")
        sys.path.insert(0, str(PLUGINS))
        return load_rules(load_settings([str(file)]))

    yield loaded
    for name in set(sys.modules) - known:
        if name.partition(".")[0] == "nova" or str(PLUGINS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    sys.path[:] = path
    shared_conf().clear()


def filters(*paths: str) -> str:
    lines = "".join(f"available_filters = {path}\n" for path in paths)
    names = ",".join(path.rpartition(".")[2] for path in paths)
    return f"[filter_scheduler]\n{lines}enabled_filters = {names}\n"


def left(rules: Rules, **asked: object) -> set[str]:
    decision = rules.engine.decide(HOSTS, with_resources(request(**asked)), limit=9)  # type: ignore[arg-type]
    return {ranked.host for ranked in decision.ranked}


def test_an_aggregate_helper(load_with: Load, caplog: pytest.LogCaptureFixture) -> None:
    rules = load_with(filters("reserved_rack.ReservedRackFilter"))
    assert rules.engine.filters[0].run_once is True
    assert left(rules, project_id="p2") == EVERYONE
    with caplog.at_level(logging.INFO, "reserved_rack"):
        assert left(rules, project_id="p3") == {"rack2-a", "rack2-b"}
    assert "instances:3 is reserved for ['p1', 'p2']" in caplog.text


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ({}, EVERYONE),
        ({"windows": "2022"}, EVERYONE),
        ({"license:windows": "2022"}, {"rack2-a"}),
        ({"license:windows": "<or> 2012 <or> 2019"}, {"rack2-a"}),
        ({"license:windows": "2012"}, set()),
        ({"license:oracle": "1"}, set()),
    ],
)
def test_extra_specs_with_operators(load_with: Load, specs: dict[str, str], expected: set[str]) -> None:
    assert left(load_with(filters("license_specs.LicenseFilter")), flavor=flavor(specs)) == expected


def test_hints(load_with: Load) -> None:
    rules = load_with(filters("near_volume.NearVolumeFilter"))
    assert rules.engine.filters[0].run_once is False
    assert left(rules) == EVERYONE
    assert left(rules, hints={"near_volume": ("rack2-a",)}) == {"rack2-a"}
    assert left(rules, hints={"near_volume": ("rack2-a", "rack1-a")}) == {"rack2-a", "rack1-a"}


def test_a_filter_that_sees_all_hosts_together(load_with: Load) -> None:
    rules = load_with(filters("emptiest_rack.EmptiestRackFilter"))
    assert left(rules) == {"rack2-a", "rack2-b"}
    assert left(rules, force_host="rack1-a") == {"rack1-a"}


def test_options_that_a_rule_registers(load_with: Load, caplog: pytest.LogCaptureFixture) -> None:
    rules = load_with(filters("headroom.HeadroomFilter"))
    assert left(rules) == {"rack1-a", "rack2-a", "rack2-b"}
    assert "Headroom invalid literal" in caplog.text
    assert left(rules, flavor=flavor(memory_mib=6000)) == {"rack1-a", "rack2-b"}
    strict = load_with(filters("headroom.HeadroomFilter") + "ram_headroom_mb = 7500\n")
    assert left(strict) == {"rack2-a"}


def test_weighers_with_multipliers_and_fixed_ends(load_with: Load) -> None:
    rules = load_with(
        "[filter_scheduler]\nenabled_filters = ComputeFilter\nweight_classes = least_failed.LeastFailedWeigher\n"
        "weight_classes = same_color.SameColorWeigher\n"
    )
    decision = rules.engine.decide(HOSTS, request(hints={"color": ("blue",)}), limit=9)
    weights = {ranked.host: dict(ranked.weights) for ranked in decision.ranked}
    assert weights == {
        "rack1-a": {"LeastFailedWeigher": 2.0, "SameColorWeigher": 0.0},
        "rack1-b": {"LeastFailedWeigher": pytest.approx(1.2), "SameColorWeigher": 1.5},
        "rack2-a": {"LeastFailedWeigher": pytest.approx(1.6), "SameColorWeigher": 0.0},
        "rack2-b": {"LeastFailedWeigher": -1.0, "SameColorWeigher": 1.5},
    }
    assert [ranked.host for ranked in decision.ranked] == ["rack1-b", "rack1-a", "rack2-a", "rack2-b"]


def test_a_driver_as_they_were_in_havana(load_with: Load) -> None:
    rules = load_with("driver = address_driver.AddressScheduler\n")
    assert rules.driver is not None
    places = {}
    for address in ("10.0.0.1", "192.0.2.1"):
        spec = with_resources(request(instance_uuids=("i1", "i2"), remote_address=address))
        answer = rules.driver.answer(spec, HOSTS)
        places[address] = {answer.decide(HOSTS).ranked[0].host.partition("-")[0] for _ in range(2)}
    assert places == {"10.0.0.1": {"rack1"}, "192.0.2.1": {"rack2"}}
    spec = with_resources(request(instance_uuids=("i1",), remote_address="10.0.0.1"))
    none = table(host("rack2-a"))
    refusal = rules.driver.answer(spec, none).decide(none).refusal
    assert refusal == "No valid host was found. No host of that rack"


def test_a_driver_that_runs_instances_itself(load_with: Load, caplog: pytest.LogCaptureFixture) -> None:
    rules = load_with("driver = rack_runner.RackRunner\n")
    assert rules.driver is not None
    both = with_resources(request(instance_uuids=("i1", "i2")))
    with caplog.at_level(logging.DEBUG, "rack_runner"):
        answer = rules.driver.answer(both, HOSTS)
    assert [answer.decide(HOSTS).ranked[0].host for _ in range(2)] == ["rack2-a", "rack2-b"]
    assert all(f"{what} = {{" in caplog.text for what in ("request_spec", "filter_properties", "context"))
    three = with_resources(request(instance_uuids=("i1", "i2", "i3")))
    assert rules.driver.answer(three, HOSTS).decide(HOSTS).refusal == "No valid host was found. Rack 2 is full"
    move = replace(both, instance_uuids=("i1",), move=MoveKind.COLD_MIGRATE)
    assert rules.driver.answer(move, HOSTS).decide(HOSTS).ranked[0].host == "rack1-a"


def test_the_names_that_documents_print(load_with: Load, tmp_path: Path) -> None:
    rules = load_with("[DEFAULT]\nscheduler_driver = nova.scheduler.ip_scheduler.IPScheduler\n")
    assert rules.driver is not None
    assert rules.driver.name == "IPScheduler"
    assert "nova.scheduler.ip_scheduler" in sys.modules
    own = tmp_path / "own"
    own.mkdir()
    text = "from nova.scheduler import filters\n\n\nclass RackFilter(filters.BaseHostFilter):\n"
    (own / "rack_filter.py").write_text(
        f"{text}    def host_passes(self, host_state, spec_obj):\n        return host_state.host.startswith('rack1')\n"
    )
    one = load_with(f"plugin_path = {own}\n" + filters("nova.scheduler.filters.rack_filter.RackFilter"))
    assert left(one) == {"rack1-a", "rack1-b"}
    with pytest.raises(ConfigurationError, match=r"nova\.scheduler\.no_scheduler"):
        load_with("driver = nova.scheduler.no_scheduler.NoScheduler\n")


HERE = "from kilonova.scheduler import"
#: What docs/rules.md says an import of Nova becomes here.
PORT = {
    "from nova.scheduler import utils": f"{HERE} aggregate_values as utils",
    "from nova.scheduler.filters import utils": f"{HERE} aggregate_values as utils",
    "from nova.scheduler.filters import extra_specs_ops": f"{HERE} extra_specs as extra_specs_ops",
    "from nova.scheduler import filters": f"{HERE} filters",
    "from nova.scheduler import weights": f"{HERE} weights",
}


def test_the_page_on_rules_has_the_same_table() -> None:
    page = (Path(__file__).parents[4] / "docs" / "rules.md").read_text()
    for there, here in PORT.items():
        row = next(line for line in page.splitlines() if f"`{there}`" in line)
        assert row.endswith(f"| `{here}` |")


def test_a_rule_is_ported_by_its_import_lines(load_with: Load, tmp_path: Path) -> None:
    for name in ("license_specs", "near_volume", "emptiest_rack", "least_failed", "same_color"):
        text = (PLUGINS / f"{name}.py").read_text()
        for there, here in PORT.items():
            text = text.replace(f"{there}\n", f"{here}\n")
        assert "from nova" not in text
        (tmp_path / f"ported_{name}.py").write_text(text)
    sys.path.append(str(tmp_path))
    rules = load_with(
        "nova_import_compat = false\n"
        + filters("ported_license_specs.LicenseFilter", "ported_near_volume.NearVolumeFilter")
        + "weight_classes = ported_least_failed.LeastFailedWeigher\nleast_failed_weight_multiplier = 5\n"
    )
    assert "nova" not in sys.modules
    assert left(rules, flavor=flavor({"license:windows": "2022"})) == {"rack2-a"}
    assert left(rules, hints={"near_volume": ("rack2-b",)}) == {"rack2-b"}
    (weigher,) = rules.engine.weighers
    assert np.asarray(weigher.factors(HOSTS, slice(None))).tolist() == [5.0, 5.0, 5.0, -1.0]


def test_without_the_switch_there_is_no_nova(load_with: Load) -> None:
    off = filters("near_volume.NearVolumeFilter").replace(
        "[filter_scheduler]", "nova_import_compat = false\n[filter_scheduler]"
    )
    with pytest.raises(ConfigurationError, match="No module named 'nova'"):
        load_with(off)
    assert "nova" not in sys.modules


def test_a_real_nova_is_never_replaced(load_with: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ModuleType("nova", "OpenStack Compute")
    monkeypatch.setitem(sys.modules, "nova", real)
    with pytest.raises(ConfigurationError, match="Nova itself is installed"):
        load_with("")
    assert sys.modules["nova"] is real


def test_a_real_nova_that_nobody_imported_yet_is_never_replaced(load_with: Load, tmp_path: Path) -> None:
    (tmp_path / "site" / "nova").mkdir(parents=True)
    (tmp_path / "site" / "nova" / "__init__.py").write_text("")
    sys.path.insert(0, str(tmp_path / "site"))
    with pytest.raises(ConfigurationError, match="Nova itself is installed"):
        load_with("")


def test_installing_twice_is_success_and_what_is_not_there_says_so(load_with: Load) -> None:
    load_with("")
    nova_modules.install()
    with pytest.raises(ModuleNotFoundError, match=r"nova\.virt"):
        __import__("nova.virt.libvirt")
