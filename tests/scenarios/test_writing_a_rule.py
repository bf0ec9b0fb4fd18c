# SPDX-License-Identifier: Apache-2.0
"""The page on writing a rule is correct: its code blocks equal the example, and run as printed."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kilonova.claims.outside_driver import OutsideDriver
from kilonova.cli.scenarios.settings import play_with_settings
from kilonova.cli.wiring import plug_ins
from kilonova.cli.wiring.rules import load_rules
from kilonova.config.load import load_settings
from kilonova.model.flavor import Flavor
from kilonova.model.request_spec import RequestSpec
from kilonova.scenario.load import load_scenario
from kilonova.scenario.outcome import surprises
from kilonova.scheduler.depends_on import DependsOn, dependence_of
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.rule import rule_name

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "writing-a-rule.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
FILES = {"headroom.py": 0, "headroom.yaml": 1, "test_headroom.py": 4}
LICENCE = "# SPDX-License-Identifier: Apache-2.0\n"


def block(kind: str) -> str:
    (text,) = [text for found, text in BLOCKS if found == kind]
    return text


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Folder with the files of the page, as a reader creates them."""
    path = list(sys.path)
    for name, number in FILES.items():
        (tmp_path / name).write_text(BLOCKS[number][1])
    yield tmp_path
    sys.path[:] = path
    sys.modules.pop("headroom", None)


@pytest.mark.parametrize("name", FILES)
def test_the_blocks_are_the_example(name: str) -> None:
    assert (ROOT / "examples" / "headroom" / name).read_text() == LICENCE + BLOCKS[FILES[name]][1]


def test_the_scenario_goes_as_the_page_says(folder: Path) -> None:
    scenario = load_scenario(folder / "headroom.yaml")
    played = play_with_settings(scenario)
    assert surprises(scenario, {server.name: server.landing for server in played}) == ()
    assert [server.landing.host for server in played] == ["small", "small", "big", None]
    refused = played[-1].decisions[-1]
    assert block("text") == f"No valid host was found. {refused.summary()}\n"
    assert "would be left with too little memory" in {step.reason for step in refused.steps}


def test_the_test_passes(folder: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_configuration_works(folder: Path) -> None:
    printed = block("ini")
    assert "plugin_path = /etc/kilonova/rules\n" in printed
    (folder / "test_headroom.py").unlink()
    text = printed.replace("/etc/kilonova/rules", str(folder))
    (folder / "kilonova.conf").write_text(f"[database]\nconnection = sqlite://\n{text}")
    engine = load_rules(load_settings([str(folder / "kilonova.conf")])).engine
    assert [rule_name(each) for each in engine.filters] == ["ComputeFilter", "ImagePropertiesFilter", "HeadroomFilter"]
    assert engine.filters[-1].rule.free_mib == 4096  # type: ignore[attr-defined]
    assert rule_name(engine.weighers[-1]) == "FullestWeigher"
    assert engine.weighers[-1].rule.multiplier == 2.0  # type: ignore[attr-defined]


def test_the_entry_points_lead_to_the_rules(folder: Path) -> None:
    sys.path.insert(0, str(folder))
    groups = tomllib.loads(block("toml"))["project"]["entry-points"]
    kinds = {kind.group: kind for kind in plug_ins.KINDS}
    for group, points in groups.items():
        for name, target in points.items():
            module, _, attribute = target.partition(":")
            cls = getattr(import_module(module), attribute)
            assert cls.__name__ == name
            assert kinds[group].fits(cls)


def test_the_snippets_of_the_page_on_rules_run() -> None:
    page = (ROOT / "docs" / "rules.md").read_text()
    names: dict[str, Any] = {}
    for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(text, names)
    hosts = build_host_table([HostRecord("busy", (), num_instances=10), HostRecord("quiet", (), num_instances=9)])
    spec = RequestSpec(Flavor("1", "m1", vcpus=0, memory_mib=0, root_gib=0))
    assert names["QuietHostsFilter"]().passes(hosts, spec).tolist() == [False, True]
    assert dependence_of(names["RenewedQuietHostsFilter"]()) == DependsOn.ROWS
    answer = OutsideDriver(names["FirstHost"](), Engine()).answer(spec, hosts)
    assert answer.decide(hosts).ranked[0].host == "busy"
