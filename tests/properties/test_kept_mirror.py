# SPDX-License-Identifier: Apache-2.0
"""The live hosts of a mirror are the hosts of its snapshots, and kept decisions follow every change of the mirror."""

import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.properties.test_mirror import CLASSES, HISTORIES, Operation, apply, uuid_of

from kilonova.cli.wiring.rules import build_engine
from kilonova.db.database import Database
from kilonova.mirror.mirror import Mirror
from kilonova.mirror.state import Assumption
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.kept_decisions import KeptDecisions
from kilonova.scheduler.guests import guest_kind
from kilonova.scheduler.resources import with_resources
from kilonova.scheduler.settings import SchedulerConfig
from support.decision_outcomes import assert_same, outcome
from support.mirrors import hosts_of
from support.samples import sampled

ENGINE = build_engine(
    SchedulerConfig(
        enabled_filters=("ComputeFilter", "ImagePropertiesFilter", "TypeAffinityFilter", "AggregateNumInstancesFilter"),
        image_props_weight_multiplier=1.0,
        num_instances_weight_multiplier=-0.5,
        metrics_weight_setting=("cpu.percent=1.0",),
        metrics_required=False,
        max_instances_per_host=4,
    )
)
ROOMY = build_engine(SchedulerConfig(enabled_filters=("ComputeFilter",)))
REQUESTS = tuple(
    with_resources(RequestSpec(flavor, image, project_id="p"))
    for flavor, image in (
        (Flavor("1", "a", 1, 0, 0), None),
        (Flavor("0", "b", 2, 1, 0), Image("i", properties={"os_distro": "ubuntu"})),
        (Flavor("2", "c", 1, 1, 0, extra_specs={"resources:CUSTOM_A": "1"}), None),
    )
)


@pytest.fixture
def folder(sqlite_template: Path) -> Path:
    return sqlite_template


@settings(
    max_examples=sampled(60, sample=20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(HISTORIES, st.data())
def test_kept_decisions_follow_a_mirror(folder: Path, history: list[list[Operation]], data: st.DataObject) -> None:
    now = [time.time()]
    with TemporaryDirectory() as place:
        file = Path(place) / "kilonova.db"
        shutil.copy(folder, file)
        database = Database(f"sqlite:///{file}")
        mirror = Mirror.follow(database, clock=lambda: now[0])
        known = [(engine, KeptDecisions(engine)) for engine in (ENGINE, ROOMY)]
        made: list[str] = []
        for batch in history:
            apply(database, batch)
            now[0] += data.draw(st.sampled_from([0.0, 0.5, 59.0]))
            for claim_id in made[: data.draw(st.integers(0, 2))]:
                mirror.forget(claim_id)
            if mirror._state.providers.uuids and data.draw(st.booleans()):
                uuid = data.draw(st.sampled_from(mirror._state.providers.uuids))
                amounts = data.draw(st.dictionaries(CLASSES, st.integers(1, 5), min_size=1, max_size=2))
                guest = guest_kind(str(len(made) % 3), {"os_distro": "ubuntu"})
                made.append(f"claim{len(made)}")
                mirror.assume(Assumption(made[-1], {uuid: amounts}, "h0", "n0", uuid_of(2, 0), guest))
            with mirror.lock:
                _require_same_hosts(mirror, now[0])
                for engine, kept in known:
                    _require_same_decisions(mirror, engine, kept, now[0])
        database.close()


def _require_same_hosts(mirror: Mirror, now: float) -> None:
    live, copied = mirror.live().at(now), mirror.hosts()
    assert hosts_of(live) == hosts_of(copied)
    for name in ("used", "num_instances", "num_io_ops", "devices"):
        assert np.array_equal(getattr(live, name), getattr(copied, name)), name
        assert len(live) == 0 or not np.shares_memory(getattr(live, name), getattr(copied, name)), name


def _require_same_decisions(mirror: Mirror, engine: Engine, kept: KeptDecisions, now: float) -> None:
    for spec in REQUESTS:
        mine = outcome(lambda: kept.decide(mirror.live(), now, spec, limit=3))  # noqa: B023
        whole = outcome(lambda: engine.decide(mirror.hosts(), spec, limit=3))  # noqa: B023
        assert_same(mine, whole)
