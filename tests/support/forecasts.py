# SPDX-License-Identifier: Apache-2.0
"""Small forecasts for tests: equal hosts, two flavors, and a clock that stands still."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kilonova.cli.wiring.rules import build_engine
from kilonova.model.flavor import Flavor
from kilonova.model.host import NODE_TRAITS
from kilonova.model.image import Image
from kilonova.model.provider import Inventory
from kilonova.planning.forecast.forecast import Beginning, Forecast, forecast
from kilonova.planning.forecast.run import Policy
from kilonova.planning.forecast.scenario import Scenario, scenario_of
from kilonova.planning.forecast.server_kinds import Catalog, KindName, Kinds
from kilonova.planning.forecast.virtual_cloud import always_up
from kilonova.planning.forecast.workload import Servers
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.host_records import HostRecord, build_host_table
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.settings import SchedulerConfig

SMALL, LARGE = Flavor("1", "small", 1, 1024, 10), Flavor("2", "large", 4, 8192, 40)
CATALOG = Catalog({"small": SMALL, "large": LARGE}, {"tiny": Image("tiny", "tiny")}, zones=frozenset({"nova"}))
ENGINE = build_engine(SchedulerConfig())
POLICY = Policy(name="default", engine=ENGINE)


DAY_S = 86_400.0


def hosts(count: int, *, vcpus: int = 8, memory: int = 16_384, disk: int = 100) -> HostTable:
    inventories = (Inventory("VCPU", vcpus), Inventory("MEMORY_MB", memory), Inventory("DISK_GB", disk))
    records = [HostRecord(f"node{number}", inventories, traits=frozenset(NODE_TRAITS)) for number in range(count)]
    return always_up(build_host_table(records), 60)


def scenario(**fields: Any) -> Scenario:
    return scenario_of({"length": "30d", "interval": "10d", **fields})


def forecast_of(
    asked: Scenario,
    start: HostTable,
    *engines: Engine,
    traces: Sequence[Servers] = (),
    kinds: Kinds | None = None,
    **more: Any,
) -> Forecast:
    policies = [Policy(name=str(number), engine=engine) for number, engine in enumerate(engines or (ENGINE,))]
    return forecast(
        asked,
        Beginning(hosts=start, kinds=kinds or Kinds(CATALOG), traces=traces, **more),
        policies,
        clock_ns=lambda: 0,
    )


def trace(*lives: tuple[float, float, str]) -> dict[str, Any]:
    """Return a trace of (arrival, departure, flavor), in days."""
    kinds = Kinds(CATALOG)
    numbers = np.array([kinds.number(KindName(flavor), "") for _, _, flavor in lives], dtype=np.int64)
    arrival = np.array([begin for begin, _, _ in lives]) * DAY_S
    return {
        "traces": [Servers.of(arrival, np.array([end for _, end, _ in lives]) * DAY_S - arrival, numbers)],
        "kinds": kinds,
    }
