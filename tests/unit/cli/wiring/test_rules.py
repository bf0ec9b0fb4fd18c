# SPDX-License-Identifier: Apache-2.0
"""Loading rules: paths, names, and what is said when they are mixed up."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.scheduler.small_cloud import aggregate, host, request, table

from kilonova.cli.wiring.rules import ALL_FILTERS, ALL_WEIGHERS, build_engine
from kilonova.errors import ConfigurationError
from kilonova.model.aggregate import Aggregate
from kilonova.scheduler import filters
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.request_filters import configured_request_filters
from kilonova.scheduler.rule import rule_name
from kilonova.scheduler.settings import DEFAULT_FILTERS, SchedulerConfig
from kilonova.scheduler.weighers import WEIGHERS, BaseHostWeigher, RAMWeigher

EXAMPLES = Path(__file__).parents[4] / "examples"
HERE = __name__
TROVE = "trove_filter.TroveImageFilter"


class ColumnRule:
    """A third-party rule on columns."""

    reason = "because"
    run_once = runs_on_rebuild = False

    def passes(self, hosts: Any, spec: Any) -> Any:
        return hosts.all_hosts


class NovaRule(filters.BaseHostFilter):
    def host_passes(self, host_state: Any, filter_properties: Any) -> bool:
        return True


class NovaWeigher(BaseHostWeigher):
    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        return 1.0


class TallWeigher(RAMWeigher):
    """A third-party weigher on columns, with an option of its own."""

    option = "tall_weight_multiplier"


def several() -> list[type[Any]]:
    return [ColumnRule, NovaRule]


def numbers() -> list[int]:
    return [1]


@pytest.fixture
def trove_path() -> Iterator[None]:
    sys.path.insert(0, str(EXAMPLES))
    yield
    sys.path.remove(str(EXAMPLES))


def names(engine: Engine) -> list[str]:
    return [rule_name(each) for each in engine.filters]


def test_the_defaults_are_novas() -> None:
    engine = build_engine(SchedulerConfig())
    assert names(engine) == list(DEFAULT_FILTERS)
    assert [rule_name(each) for each in engine.weighers] == list(WEIGHERS)
    assert engine.request_filters == configured_request_filters(SchedulerConfig())
    assert engine.pcpu_fallback


def test_options_reach_the_rules() -> None:
    engine = build_engine(
        SchedulerConfig(
            enabled_filters=("NumInstancesFilter", "IoOpsFilter"),
            max_instances_per_host=7,
            max_io_ops_per_host=3,
            ram_weight_multiplier=-2.0,
            host_subset_size=4,
            shuffle_best_same_weighed_hosts=True,
            disable_fallback_pcpu_query=True,
        )
    )
    assert not engine.pcpu_fallback
    num_instances, io_ops = engine.filters
    assert isinstance(num_instances, filters.NumInstancesFilter)
    assert isinstance(io_ops, filters.IoOpsFilter)
    assert (num_instances.max_instances_per_host, io_ops.max_io_ops_per_host) == (7, 3)
    ram = engine.weighers[0]
    assert isinstance(ram, RAMWeigher)
    assert ram.multiplier == -2.0
    assert (engine.host_subset_size, engine.shuffle) == (4, True)


@pytest.mark.parametrize("alias", [ALL_FILTERS, "nova.scheduler.filters.all_filters"])
def test_empty_items_and_repeated_names_do_no_harm(alias: str) -> None:
    config = SchedulerConfig(
        available_filters=(alias, " ", f"{HERE}.NovaRule"),
        enabled_filters=("", " NovaRule ", "ComputeFilter", "NovaRule"),
    )
    assert names(build_engine(config)) == ["NovaRule", "ComputeFilter"]


def test_a_path_may_lead_to_a_class_a_function_or_a_built_in_rule_by_its_nova_path() -> None:
    config = SchedulerConfig(
        available_filters=(f"{HERE}.several", "nova.scheduler.filters.compute_filter.ComputeFilter"),
        enabled_filters=("ColumnRule", "NovaRule", "ComputeFilter"),
        weight_classes=(f"{HERE}.NovaWeigher", f"{HERE}.TallWeigher", "nova.scheduler.weights.ram.RAMWeigher"),
    )
    engine = build_engine(config)
    assert names(engine) == ["ColumnRule", "NovaRule", "ComputeFilter"]
    assert [rule_name(each) for each in engine.weighers] == ["NovaWeigher", "TallWeigher", "RAMWeigher"]
    assert build_engine(SchedulerConfig(weight_classes=("nova.scheduler.weights.all_weighers",))) == build_engine(
        SchedulerConfig(weight_classes=(ALL_WEIGHERS,))
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"enabled_filters": ("Nope", "ComputeFilter", "Neither")}, ["enabled_filters", "Nope, Neither"]),
        (
            {"enabled_filters": (TROVE,)},
            [
                TROVE,
                "looks like a path",
                "enabled_filters takes class names",
                "'TroveImageFilter'",
                "available_filters",
            ],
        ),
        (
            {"available_filters": (f"{HERE}.NovaRule",), "enabled_filters": ("NovaRule", "ComputeFilter")},
            ["ComputeFilter", "without the built-in filters", ALL_FILTERS],
        ),
        (
            {"available_filters": ("TroveImageFilter", "no.such.Module", "os.nothing")},
            ["available_filters must be dotted paths", "'TroveImageFilter'", "'no.such.Module'", "'os.nothing'"],
        ),
        ({"available_filters": (f"{HERE}.HERE",)}, ["neither a class nor a function"]),
        ({"available_filters": (f"{HERE}.numbers",)}, ["numbers", "lacks passes"]),
        ({"available_filters": (f"{HERE}.NovaWeigher",)}, ["NovaWeigher", "lacks passes"]),
        ({"weight_classes": ("RAMWeigher", f"{HERE}.NovaRule")}, ["weight_classes", "'RAMWeigher'", "NovaRule"]),
    ],
)
def test_mix_ups_are_named_at_start(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build_engine(SchedulerConfig(**changes))
    for word in words:
        assert word in caught.value.message


def test_a_class_placed_among_the_built_in_filters_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dropped.py").write_text(
        "from kilonova.scheduler import filters\n"
        "class DroppedFilter(filters.BaseHostFilter):\n"
        "    def host_passes(self, host_state, spec_obj):\n"
        "        return True\n"
    )
    monkeypatch.setattr(filters, "__path__", [*filters.__path__, str(tmp_path)])
    engine = build_engine(SchedulerConfig(enabled_filters=("DroppedFilter",)))
    assert names(engine) == ["DroppedFilter"]


@pytest.mark.usefixtures("trove_path")
def test_the_trove_filter_works_as_the_document_prints_it(caplog: pytest.LogCaptureFixture) -> None:
    engine = build_engine(
        SchedulerConfig(
            available_filters=("nova.scheduler.filters.all_filters", TROVE), enabled_filters=("", "TroveImageFilter")
        )
    )
    hosts = table(
        *(host(f"compute{number}") for number in (1, 2, 3)), aggregates=(aggregate(1, ("compute3",)), _trove())
    )
    with caplog.at_level(logging.DEBUG, "trove_filter"):
        tagged = engine.decide(hosts, request(properties={"tesora_edition": "x"}), limit=3)
    untagged = engine.decide(hosts, request(properties={"trove": "true"}), limit=3)
    assert [ranked.host for ranked in tagged.ranked] == ["compute3"]
    assert sorted(ranked.host for ranked in untagged.ranked) == ["compute1", "compute2"]
    assert sorted(ranked.host for ranked in engine.decide(hosts, request(), limit=3).ranked) == ["compute1", "compute2"]
    assert caplog.messages == [
        "(compute1, compute1) ram:7680 disk:204800 io_ops:0 instances:0 is NOT a trove node",
        "(compute2, compute2) ram:7680 disk:204800 io_ops:0 instances:0 is NOT a trove node",
        "(compute3, compute3) ram:7680 disk:204800 io_ops:0 instances:0 is a trove node",
    ]


def _trove() -> Aggregate:
    return Aggregate(2, "uuid-2", "Trove", ("compute3",), {"CPU": "Trove"})
