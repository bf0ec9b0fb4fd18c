# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.cloud.options import using
from kilonova.cli.main import main

CLOUD = """
cloud:
  hosts: 2
  flavors: [{name: big, vcpus: 16, memory_mib: 1024, disk_gib: 1}]
  images: [{name: tiny}]
"""
YEAR = "length: 52d\nseed: 3\narrivals:\n  - {count: 40, flavors: {big: 1}, images: {tiny: 1}}\n" + CLOUD
PACK = "name: pack\noptions: {filter_scheduler: {cpu_weight_multiplier: -1, ram_weight_multiplier: -1}}\n"


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["forecast", "--json", *arguments]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def without_times(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "policies": [{**each, "took": None} for each in found["policies"]]}


def test_the_report_tells_what_fits_and_is_the_same_for_the_same_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, policy = written(tmp_path, "year.yaml", YEAR), written(tmp_path, "pack.yaml", PACK)
    found = report(capsys, path, "--compare", policy)
    assert without_times(found) == without_times(report(capsys, path, "--compare", policy))
    assert (found["arrivals"], found["days"], found["seed"]) == (40, 52, 3)
    first, second = found["policies"]
    assert (first["policy"], second["policy"]) == ("year", "pack")
    assert first["refused_by"] == {"Placement: VCPU": 24}
    assert (first["accepted"], first["checked"], len(first["intervals"])) == (16, 40, 52)


def test_the_table_has_a_line_for_each_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "year.yaml", YEAR)
    assert main(["forecast", path, "--compare", written(tmp_path, "pack.yaml", PACK)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[2].startswith("year 40.00% 24 ")
    assert lines[3].startswith("pack 40.00% 24 ")
    assert lines[-1] == "40 servers in 52 days, seed 3. 80 decisions checked."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("length: 1y\n  x: 2", ", line 2: mapping values are not allowed here"),
        ("- 1", ": a scenario must be a mapping"),
        ("seed: 1", ": object missing required field `length`"),
        ("seed: 1\nlength: 5x", ", line 2: length: expected `str` that is a duration such as 12h, 30d or 1y"),
        ("length: 1y\nodd: 1", ", line 2: odd: unknown field"),
        ("length: 1y\ncloud: [1]", ", line 2: cloud: must be the name or file of a scenario, or a mapping"),
        ("length: 1y\ncloud: nowhere", ", line 2: cloud: no scenario or file has the name 'nowhere'"),
        ("length: 1y\ncloud: {hosts: 0}", ", line 2: cloud: the described cloud has no hosts"),
        (
            "length: 1y\ncloud:\n  hosts:\n    - {name: a, vcpus: x}",
            ", line 4: cloud.hosts[0]: vcpus must be an integer",
        ),
        ("length: 1y\ntraces:\n  - no.csv" + CLOUD, ", line 3: traces[0]: file"),
        (YEAR.replace("{big", "{odd"), ", line 4: arrivals[0].flavors: unknown flavor 'odd'; known: big"),
    ],
)
def test_a_bad_scenario_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    path = written(tmp_path, "bad.yaml", text)
    assert main(["forecast", path]) == 2
    assert capsys.readouterr().err.startswith(f"kilonova: {path}{message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "bad.yaml: a policy must be a mapping"),
        ("name: a\nodd: 1", "bad.yaml, line 2: odd: unknown field; known fields: name, options"),
        ("options: [1]", "bad.yaml, line 1: options: must be a mapping"),
        ("options: {filter_scheduler: {odd: 1}}", "unknown option [filter_scheduler] odd"),
        ("options: {filter_scheduler: {enabled_filters: Odd}}", "unavailable filters: Odd"),
        ("name: year", "two policies have the name 'year'"),
    ],
)
def test_a_bad_policy_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    path = written(tmp_path, "year.yaml", YEAR)
    assert main(["forecast", path, "--compare", written(tmp_path, "bad.yaml", text)]) == 2
    assert message in capsys.readouterr().err


class Cloud:
    """A running cloud that answers each job with an empty report."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def call(self, *_: Any, json: Any = None, **__: Any) -> Any:
        self.asked.append(json)
        return {"job": {"id": "j"}}

    def get(self, *_: Any, **__: Any) -> Any:
        result = {"seq": 7, "seed": 1, "days": 10.0, "arrivals": 0, "policies": []}
        return {"job": {"id": "j", "state": "done", "progress": 1.0, "message": "", "failure": None, "result": result}}


def test_a_scenario_without_a_cloud_is_a_job_of_the_present_cloud(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, policy = written(tmp_path, "now.yaml", "length: 10d\n"), written(tmp_path, "pack.yaml", PACK)
    cloud: Any = Cloud()
    with using(cloud):
        assert report(capsys, path, "--compare", policy)["seq"] == 7
    options = {"cpu_weight_multiplier": "-1", "ram_weight_multiplier": "-1"}
    parameters = {"scenario": {"length": "10d"}, "name": "now", "policies": [{"name": "pack", "options": options}]}
    assert cloud.asked == [{"kind": "forecast", "parameters": parameters}]


def test_a_missing_file_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", "nowhere.yaml"]) != 0
    assert "nowhere.yaml: No such file" in capsys.readouterr().err
