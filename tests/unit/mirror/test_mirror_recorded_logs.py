# SPDX-License-Identifier: Apache-2.0
"""Change logs of earlier releases give the same cloud; ``support.recorded_log`` makes the recordings."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.db import checkpoints
from kilonova.db.core import change_log
from kilonova.mirror.mirror import Mirror
from support.recorded_log import NOW, Recording, facts_of

RECORDINGS = sorted((Path(__file__).parent / "change_logs").glob("*.json"))


def known_of(found: Any, known: Any) -> Any:
    """Leave of ``found`` what the release of ``known`` knew of as well: later ones may see more."""
    if isinstance(found, dict) and isinstance(known, dict):
        return {key: known_of(value, known[key]) for key, value in found.items() if key in known}
    if isinstance(found, list) and isinstance(known, list) and len(found) == len(known):
        return [known_of(one, other) for one, other in zip(found, known, strict=True)]
    return found


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.stem)
def test_a_log_of_an_earlier_release_is_replayed_to_the_same_cloud(file: Path) -> None:
    recording = Recording.read(file)
    changes = [change for part in recording.checkpoint for change in checkpoints.decode(part)]
    mirror = Mirror.of(changes, recording.seq, now=NOW)
    mirror.replay(change_log.decode_commit(seq, body) for seq, body in recording.log)
    found = facts_of(mirror)
    assert known_of(found, recording.facts) == recording.facts
