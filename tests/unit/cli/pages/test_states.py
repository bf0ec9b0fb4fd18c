# SPDX-License-Identifier: Apache-2.0
"""The page and the picture of the states of servers."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kilonova.cli.main import main
from kilonova.conductor.workflows.registry import REGISTRY
from kilonova.model.transitions import TRANSITIONS

_DOCS = Path(__file__).parents[4] / "docs"


@pytest.mark.parametrize(("form", "file"), [("markdown", "states.md"), ("svg", "states.svg")])
def test_the_page_of_states_is_what_the_command_prints(
    form: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["docs", "states", "--format", form]) == 0
    assert capsys.readouterr().out == (_DOCS / file).read_text(), f"make docs writes docs/{file} anew"


def test_tasks_are_listed_by_what_is_excluded_where_that_is_shorter(capsys: pytest.CaptureFixture[str]) -> None:
    main(["docs", "states"])
    rows = {line.split(" | ")[0].strip("| `"): line.split(" | ") for line in capsys.readouterr().out.splitlines()}
    assert rows["evacuate"][2] == "any except deleting, soft-deleting"
    assert rows["delete"][2] == "any"
    assert rows["hard-reboot"][2].startswith("none, rebooting, reboot_pending, ")


def test_every_action_of_the_page_is_done_by_a_workflow() -> None:
    assert set(TRANSITIONS) - {"force-delete"} <= set(REGISTRY), "a forced delete is done by the workflow of deletes"


def test_the_picture_has_a_box_for_each_state_and_a_word_for_each_action_between_two(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["docs", "states", "--format", "svg"])
    drawn = ET.fromstring(capsys.readouterr().out)
    words = {word.strip() for word in drawn.itertext()}
    assert {"active", "soft-delete", "shelved_offloaded", "unshelve", "hard-reboot", "confirm-resize"} <= words
