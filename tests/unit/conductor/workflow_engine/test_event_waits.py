# SPDX-License-Identifier: Apache-2.0
"""Steps that wait for events of the network service: no thread, no event lost, several control processes."""

from dataclasses import replace
from datetime import timedelta

from kilonova.conductor.operations.external_events import ExternalEvents
from kilonova.conductor.operations.interfaces import Interfaces
from kilonova.conductor.operations.network_caches import NetworkCaches
from kilonova.conductor.operations.outcomes import Outcomes
from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflow_engine.effects import AwaitEvents, Completed, Effect
from kilonova.conductor.workflow_engine.run import Interrupt, Run
from kilonova.conductor.workflow_engine.services import Services
from kilonova.db import network_events
from kilonova.db.database import Database
from kilonova.db.workflows import WorkflowRow
from kilonova.model.network_event import NetworkEvent, NetworkEventName
from support.workbench import Facts, Workbench, note, step, workflow

WAIT = timedelta(seconds=300)


def wait(services: Services, run: Run[Facts]) -> Effect:
    """Step that completes when two events are stored."""
    with services.database.read() as connection:
        stored = network_events.of_server(connection, run.instance_uuid)
    if len(stored) == 2:
        return Completed(replace(run.facts, trace=(*run.facts.trace, "both events")))
    return AwaitEvents(services.database.clock.now() + WAIT)


def give_up(services: Services, run: Run[Facts]) -> Effect:
    """Step whose wait is already over when it begins, and which completes when it runs again."""
    return note(services, run) if run.repeated else AwaitEvents(services.database.clock.now())


def _plugged(row: WorkflowRow, port: str) -> NetworkEvent:
    return NetworkEvent(NetworkEventName.VIF_PLUGGED, row.instance_uuid, port)


FLOW = workflow(step("wait", wait, note), step("end"))


def test_a_step_runs_again_as_soon_as_an_event_is_stored(sqlite: Database) -> None:
    bench = Workbench(sqlite, [FLOW])
    starter = Starter(bench.runner.services, bench.runner)
    interfaces = Interfaces(starter, Outcomes(sqlite, 1.0, 1))
    events = ExternalEvents(starter, interfaces, NetworkCaches(starter, interfaces.lose))
    row = bench.begin(FLOW)
    for port in ("one", "two"):
        stored = bench.row(row)
        assert stored is not None
        assert stored.step == "wait"
        events.take([_plugged(row, port)])
        bench.bus.run()
    stored = bench.row(row)
    assert stored is not None
    assert (stored.step, FLOW.run(stored).facts.trace) == ("end", ("both events",))


def test_an_event_that_another_process_stored_is_found(sqlite: Database) -> None:
    bench = Workbench(sqlite, [FLOW])
    row = bench.begin(FLOW)
    sqlite.write(lambda tx: network_events.store(tx, [_plugged(row, "one"), _plugged(row, "two")]))
    bench.runner.look_for_events()
    bench.bus.run()
    stored = bench.row(row)
    assert stored is not None
    assert stored.step == "end"


def test_a_process_that_takes_the_workflow_over_finds_the_events(sqlite: Database) -> None:
    row = Workbench(sqlite, [FLOW]).begin(FLOW)
    sqlite.write(lambda tx: network_events.store(tx, [_plugged(row, "one"), _plugged(row, "two")]))
    heir = Workbench(sqlite, [FLOW])
    heir.runner.begin([row], resumed=True)
    heir.bus.run()
    stored = heir.row(row)
    assert stored is not None
    assert stored.step == "end"


def test_the_step_decides_what_happens_after_the_wait(sqlite: Database) -> None:
    flow = workflow(step("wait", give_up), step("act"))
    bench = Workbench(sqlite, [flow])
    row = bench.begin(flow)
    bench.runner.look_for_events()
    bench.bus.run()
    stored = bench.row(row)
    assert stored is not None
    assert (stored.step, flow.run(stored).facts.trace) == ("act", ("wait",))


def test_a_delete_ends_the_wait(sqlite: Database) -> None:
    bench = Workbench(sqlite, [FLOW])
    row = bench.begin(FLOW)
    bench.interrupt(row, Interrupt.DELETE)
    assert bench.row(row) is None
    sqlite.write(lambda tx: network_events.store(tx, [_plugged(row, "one")]))
    bench.runner.look_for_events()
    assert not bench.runner.known
