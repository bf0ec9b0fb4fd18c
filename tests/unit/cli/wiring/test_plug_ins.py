# SPDX-License-Identifier: Apache-2.0
"""Plug-ins by entry point, by folder, by path: where they are found, what their options are, what stops the start."""

import itertools
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.scheduler.small_cloud import aggregate, host, request, table

from kilonova.cli.wiring.rules import ALL_FILTERS, ALL_WEIGHERS, Rules, load_rules
from kilonova.config.configuration import public_options
from kilonova.config.load import load_settings
from kilonova.errors import ConfigurationError, RuleFailed
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.rule import rule_name

NUMBERS = itertools.count()
HOSTS = table(
    host("busy", num_instances=9), host("idle"), host("some", num_instances=4), aggregates=(aggregate(1, ("some",)),)
)

QUIET = """
from dataclasses import dataclass

@dataclass(frozen=True)
class QuietHostsFilter:
    most: int = 5
    names: tuple[str, ...] = ()
    reason: str = "too loud"

    def passes(self, hosts, spec):
        return hosts.num_instances < self.most
"""
BUSY = """
from dataclasses import dataclass

@dataclass(frozen=True)
class BusyWeigher:
    multiplier: float = 1.0

    def weigh(self, hosts, spec, rows):
        return hosts.num_instances[rows]
"""
SET_ASIDE = """
from dataclasses import dataclass

@dataclass(frozen=True)
class SetAside:
    uuid: str = "uuid-1"

    def apply(self, spec, aggregates):
        return spec.with_query(forbidden_aggregates=frozenset({self.uuid}))
"""
LAST = """
from kilonova.scheduler.driver import Scheduler

class LastHost(Scheduler):
    def select_destinations(self, context, request_spec, filter_properties):
        names = self.hosts_up(context, "compute")
        return [{"host": names[-1], "nodename": None}] * request_spec["num_instances"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for plug-ins; afterwards nothing is known of them any more."""
    known, path = set(sys.modules), list(sys.path)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    sys.path[:] = path


def rules(folder: Path, more: str = "") -> tuple[Rules, Mapping[str, Any]]:
    """Load the rules that a configuration file describes, and tell all options."""
    file = folder.parent / f"{folder.name}-{next(NUMBERS)}.conf"
    file.write_text(f"[database]\nconnection = sqlite://\n[scheduler]\nplugin_path = {folder}\n{more}")
    settings = load_settings([str(file)])
    return load_rules(settings), public_options(settings.conf)


def installed(folder: Path, entry_points: str, **modules: str) -> None:
    """Put modules into a folder as an installer leaves them, with entry points."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    for name, text in modules.items():
        (site / f"{name}.py").write_text(text)
    info = site / "acme-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    sys.path.append(str(site))


def order(engine: Engine, **asked: Any) -> list[str]:
    return [ranked.host for ranked in engine.decide(HOSTS, request(**asked), limit=9).ranked]


def test_rules_in_the_folder_are_there_by_their_names_with_their_options(folder: Path) -> None:
    for name, text in {"quiet": QUIET, "busy": BUSY, "set_aside": SET_ASIDE, "last": LAST}.items():
        (folder / f"{name}.py").write_text(text)
    loaded, options = rules(
        folder,
        "request_filters = SetAside\ndriver = LastHost\ndriver_timeout = 5\n"
        "[filter_scheduler]\nenabled_filters = ComputeFilter, QuietHostsFilter\nweight_classes = BusyWeigher\n"
        "[QuietHostsFilter]\nmost = 7\nnames = a, b\n",
    )
    _, quiet = loaded.engine.filters
    assert (rule_name(quiet), quiet.reason, quiet.run_once, quiet.runs_on_rebuild) == (
        "QuietHostsFilter",
        "too loud",
        False,
        False,
    )
    assert quiet.rule.names == ("a", "b")  # type: ignore[attr-defined]
    assert options["QuietHostsFilter"] == {"most": 7, "names": ["a", "b"]}
    assert options["BusyWeigher"] == {"multiplier": 1.0}
    decision = loaded.engine.decide(HOSTS, request(), limit=9)
    assert [ranked.host for ranked in decision.ranked] == ["idle"]
    assert decision.rejected == {"SetAside": 1, "QuietHostsFilter": 1}
    assert loaded.driver is not None
    assert loaded.driver.name == "LastHost"
    assert loaded.driver.answer(request(), HOSTS).decide(HOSTS).ranked[0].host == "some"


def test_options_choose_what_a_weigher_prefers(folder: Path) -> None:
    (folder / "busy.py").write_text(BUSY)
    engines = [
        rules(folder, f"[filter_scheduler]\nweight_classes = BusyWeigher\n[BusyWeigher]\nmultiplier = {number}\n")[0]
        for number in (2, -1)
    ]
    assert order(engines[0].engine) == ["busy", "some", "idle"]
    assert order(engines[1].engine) == ["idle", "some", "busy"]


def test_installed_plug_ins_are_there_by_the_names_of_their_entry_points(folder: Path) -> None:
    installed(
        folder,
        "[kilonova.scheduler.filters]\nQuietHostsFilter = acme:QuietHostsFilter\nbroken = acme_missing:Nothing\n"
        "[kilonova.scheduler.weighers]\nBusyWeigher = acme:BusyWeigher\n"
        "[kilonova.scheduler.request_filters]\nset-aside = acme:SetAside\n"
        "[kilonova.scheduler.drivers]\nlast = acme:LastHost\n",
        acme=QUIET + BUSY + SET_ASIDE + LAST,
    )
    loaded, _ = rules(
        folder,
        "driver = last\nrequest_filters = set-aside\n[filter_scheduler]\nenabled_filters = QuietHostsFilter\n"
        f"weight_classes = {ALL_WEIGHERS}\nweight_classes = BusyWeigher\n",
    )
    assert [rule_name(each) for each in loaded.engine.filters] == ["QuietHostsFilter"]
    assert rule_name(loaded.engine.weighers[-1]) == "BusyWeigher"
    assert loaded.engine.request_filters[-1].name == "SetAside"
    assert loaded.driver is not None
    assert loaded.driver.name == "LastHost"


def test_a_path_and_an_entry_point_to_one_class_do_not_clash(folder: Path) -> None:
    installed(folder, "[kilonova.scheduler.filters]\nQuietHostsFilter = acme:QuietHostsFilter\n", acme=QUIET)
    loaded, _ = rules(
        folder,
        f"[filter_scheduler]\navailable_filters = {ALL_FILTERS}\navailable_filters = acme.QuietHostsFilter\n"
        "enabled_filters = QuietHostsFilter\n",
    )
    assert [rule_name(each) for each in loaded.engine.filters] == ["QuietHostsFilter"]


@pytest.mark.parametrize(
    "driver",
    [
        "",
        "filter_scheduler",
        "kilonova.scheduler.driver.FilterScheduler",
        "nova.scheduler.filter_scheduler.FilterScheduler",
    ],
)
def test_the_default_driver_is_the_engine_itself(folder: Path, driver: str) -> None:
    assert rules(folder, f"driver = {driver}\n")[0].driver is None


def test_the_old_name_of_the_driver_option(folder: Path) -> None:
    (folder / "last.py").write_text(LAST)
    loaded, _ = rules(folder, "[DEFAULT]\nscheduler_driver = last.LastHost\n")
    assert loaded.driver is not None
    assert loaded.driver.name == "LastHost"


STOPS = {
    "a folder that is not there": ({}, "plugin_path = /nowhere/at/all\n", "plugin_path: folder /nowhere"),
    "a module that is broken": ({"broken": "1 +"}, "", "broken cannot be imported: SyntaxError"),
    "a module that stops": ({"stops": "import acme_missing"}, "", "stops cannot be imported: ModuleNotFoundError"),
    "the name of another module": ({"json": QUIET}, "", "json cannot be imported, because"),
    "two classes of a name": (
        {"one": QUIET, "two": QUIET},
        "",
        "Two rules have the name 'QuietHostsFilter': one.QuietHostsFilter and two.QuietHostsFilter.",
    ),
    "the name of a built-in filter": (
        {"own": QUIET.replace("QuietHostsFilter", "ComputeFilter")},
        "",
        "Two rules have the name 'ComputeFilter'",
    ),
    "the name of a built-in weigher": (
        {"own": BUSY.replace("BusyWeigher", "RAMWeigher")},
        "",
        "Two rules have the name 'RAMWeigher'",
    ),
    "two paths to one name": (
        {"one": QUIET},
        "[filter_scheduler]\n"
        + "".join(f"available_filters = {name}.QuietHostsFilter\n" for name in ("one", "elsewhere")),
        "Two rules have the name 'QuietHostsFilter'",
    ),
    "no such filter": ({}, "[filter_scheduler]\nenabled_filters = QuietHostsFilter\n", "QuietHostsFilter"),
    "no such driver": ({}, "driver = Nobody\n", "'Nobody' cannot be loaded (the name has no module path)"),
    "a driver's path that leads nowhere": (
        {},
        "driver = acme.Nobody\n",
        "'acme.Nobody' cannot be loaded (No module named 'acme')",
    ),
    "a class that is no driver": ({"one": QUIET}, "driver = one.QuietHostsFilter\n", "is not a scheduler driver"),
    "a driver that decides nothing": (
        {"one": "from kilonova.scheduler.driver import Scheduler\nclass Idle(Scheduler): pass\n"},
        "driver = one.Idle\n",
        "override select_destinations",
    ),
    "a driver that breaks when it is made": (
        {"last": LAST + "    def __init__(self):\n        raise OSError('no such file')\n"},
        "driver = LastHost\n",
        "last.LastHost cannot be created: no such file.",
    ),
    "a request filter that is none": (
        {"one": QUIET},
        "request_filters = one.QuietHostsFilter\n",
        "which lacks apply",
    ),
    "a filter that lacks an option": (
        {"one": QUIET.replace("most: int = 5", "most: int")},
        "[filter_scheduler]\nenabled_filters = QuietHostsFilter\n",
        "'most'",
    ),
    "an option that is no number": (
        {"one": QUIET},
        "[filter_scheduler]\nenabled_filters = QuietHostsFilter\n[QuietHostsFilter]\nmost = many\n",
        "[QuietHostsFilter] most",
    ),
}


@pytest.mark.parametrize("case", STOPS)
def test_what_stops_the_start_is_said_in_one_line(folder: Path, case: str) -> None:
    modules, more, words = STOPS[case]
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "site").mkdir()
    (folder / "site" / "elsewhere.py").write_text(QUIET)
    sys.path.append(str(folder / "site"))
    with pytest.raises(ConfigurationError) as caught:
        rules(folder, more)
    assert words in caught.value.message
    assert "\n" not in caught.value.message


def test_entry_points_that_cannot_be_used_stop_the_start_when_they_are_asked_for(folder: Path) -> None:
    installed(
        folder,
        "[kilonova.scheduler.filters]\nbroken = acme_missing:Nothing\nnone = acme:BusyWeigher\n"
        "QuietHostsFilter = acme:QuietHostsFilter\n",
        acme=BUSY + QUIET,
    )
    assert rules(folder)[0].engine.filters
    for name, words in (("broken", "cannot be loaded: No module named 'acme_missing'"), ("none", "lacks passes")):
        with pytest.raises(ConfigurationError, match=words):
            rules(folder, f"[filter_scheduler]\nenabled_filters = {name}\n")
    (folder / "own.py").write_text(QUIET)
    with pytest.raises(ConfigurationError, match=r"own\.QuietHostsFilter and entry point acme:QuietHostsFilter"):
        rules(folder)


def _engine_with(folder: Path, text: str) -> Engine:
    (folder / "odd.py").write_text(f"class Odd:\n    def apply(self, spec, aggregates):\n        {text}\n")
    return rules(folder, "request_filters = Odd\n")[0].engine


def test_request_filters_from_outside_may_refuse_or_break(folder: Path) -> None:
    refusing = "from kilonova.errors import RequestFilterFailed; raise RequestFilterFailed('not today')"
    decision = _engine_with(folder, refusing).decide(HOSTS, request(), limit=1)
    assert (decision.steps[-1].rule, decision.steps[-1].reason) == ("Odd", "not today")


@pytest.mark.parametrize("text", ["raise KeyError(1)", "return None"])
def test_a_request_filter_that_breaks_is_named(folder: Path, text: str) -> None:
    engine = _engine_with(folder, text)
    with pytest.raises(RuleFailed, match=r"Request filter Odd failed"):
        engine.decide(HOSTS, request(), limit=1)


def test_a_plug_in_weigher_may_take_its_multiplier_from_aggregates(folder: Path) -> None:
    text = BUSY.replace("class BusyWeigher:", "class BusyWeigher:\n    option = 'busy_weight_multiplier'")
    (folder / "busy.py").write_text(text)
    weigher = rules(folder, "[filter_scheduler]\nweight_classes = BusyWeigher\n")[0].engine.weighers[0]
    hosts = table(host("a"), host("b"), aggregates=(aggregate(1, ("b",), busy_weight_multiplier="-3"),))
    factors = weigher.factors(hosts, np.array([0, 1]))
    assert np.asarray(factors).tolist() == [1.0, -3.0]
