# SPDX-License-Identifier: Apache-2.0
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from kilonova.conductor.workflow_engine import reply_meaning
from kilonova.conductor.workflow_engine.effects import Completed
from kilonova.conductor.workflow_engine.reply_meaning import meaning_of
from kilonova.conductor.workflow_engine.run import Interrupt, UndoFailedError
from kilonova.messaging.messages import StepId, StepReply

REPLY = StepReply(StepId("w", "s", 1), "node1", "i", "The disk hangs.")


def skipped(*_: Any) -> None:
    """Stands for the write of a step whose undo is skipped."""


def refuse(*_: Any) -> Any:
    raise UndoFailedError("The disk hangs.")


def meaning(monkeypatch: pytest.MonkeyPatch, *, undoing: bool, interrupt: Interrupt | None, host: str) -> Any:
    services: Any = SimpleNamespace(database=SimpleNamespace(read=lambda: nullcontext(None)))
    step: Any = SimpleNamespace(on_undone=refuse, on_reply=lambda *_: "done", on_skipped=lambda *_: skipped)
    run: Any = SimpleNamespace(row=SimpleNamespace(undoing=undoing), interrupt=interrupt, instance_uuid="i")
    monkeypatch.setattr(reply_meaning.instances, "place_of", lambda _connection, _uuid: (host, None))
    return meaning_of(services, step, run, REPLY)


def test_a_reply_belongs_to_the_step_or_to_its_undo(monkeypatch: pytest.MonkeyPatch) -> None:
    assert meaning(monkeypatch, undoing=False, interrupt=None, host="node1") == "done"
    with pytest.raises(UndoFailedError):
        meaning(monkeypatch, undoing=True, interrupt=None, host="node1")


def test_an_undo_that_fails_on_the_host_that_an_evacuation_leaves_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert meaning(monkeypatch, undoing=True, interrupt=Interrupt.EVACUATE, host="node1") == Completed(write=skipped)


@pytest.mark.parametrize(("interrupt", "host"), [(Interrupt.EVACUATE, "node2"), (Interrupt.DELETE, "node1")])
def test_an_undo_that_fails_elsewhere_or_for_another_reason_has_failed(
    monkeypatch: pytest.MonkeyPatch, interrupt: Interrupt, host: str
) -> None:
    with pytest.raises(UndoFailedError):
        meaning(monkeypatch, undoing=True, interrupt=interrupt, host=host)
