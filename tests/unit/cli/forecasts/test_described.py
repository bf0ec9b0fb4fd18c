# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

from kilonova.cli.forecasts.described import load_forecast, run_described

CLOUD = """
cloud:
  hosts: 2
  flavors: [{name: big, vcpus: 16, memory_mib: 1024, disk_gib: 1}]
  images: [{name: tiny}]
"""
YEAR = "length: 52d\narrivals:\n  - {count: 40, flavors: {big: 1}, images: {tiny: 1}}\n" + CLOUD


def report(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "year.yaml"
    path.write_text(text)
    return run_described(load_forecast(path), ()).report()


def test_servers_of_the_described_cloud_are_there_from_the_beginning(tmp_path: Path) -> None:
    more = "  servers: [{name: old, flavor: big, image: tiny, count: 10, expect: [node1]}]\n"
    found = report(tmp_path, YEAR + more)["policies"][0]
    assert (found["arrived"], found["accepted"]) == (50, 16)
    assert found["intervals"][0]["servers"] >= 10


def test_the_cloud_can_be_a_scenario_of_its_own(tmp_path: Path) -> None:
    text = "length: 10d\narrivals:\n  - {count: 3, flavors: {m1.tiny: 1}, zones: {az1: 1}}\ncloud: "
    found = report(tmp_path, f"{text}zones\n")
    assert found["arrivals"] == 3 + 11, "the servers of the scenario arrive as well"
    aggregates = "aggregates: [{name: a, zone: az1, hosts: [node1]}]"
    (tmp_path / "own.yaml").write_text(f"hosts: 1\nflavors: [{{name: m1.tiny}}]\n{aggregates}")
    assert report(tmp_path, f"{text}own.yaml\n")["policies"][0]["accepted"] == 3


def test_a_trace_adds_servers(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("arrival,lifetime,flavor\n0,1d,big\n1d,,big\n")
    found = report(tmp_path, f"length: 2d\ntraces: [trace.csv]\n{CLOUD}")
    assert (found["policies"][0]["accepted"], found["policies"][0]["left"]) == (2, 1)
