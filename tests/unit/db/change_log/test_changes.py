# SPDX-License-Identifier: Apache-2.0
"""The format of the change log: what is only added is tolerated, and what is newer is refused by name."""

import msgspec
import pytest

from kilonova.db import checkpoints
from kilonova.db.change_log import changes
from kilonova.db.change_log.changes import Change, Commit, LoggedInstance, LoggedService
from kilonova.db.core.change_log import decode_commit
from kilonova.errors import FromNewerRelease

SERVICE = Change("service", "h0", LoggedService(disabled=True, reason="ü", forced_down=False, created=1.5))
GONE = Change("instance", "i", None)


def test_what_is_written_is_read() -> None:
    body = changes.encode([SERVICE, GONE], ["claim"])
    assert decode_commit(7, body) == Commit(7, (SERVICE, GONE), ("claim",))
    assert msgspec.json.decode(body)["version"] == changes.VERSION
    assert list(checkpoints.decode(checkpoints.encode([SERVICE, GONE]))) == [SERVICE, GONE]


def test_bodies_of_before_there_was_a_version() -> None:
    value = {"disabled": 1, "reason": None, "forced_down": 0, "last_seen": 3, "created": None}
    read = (Change("service", "h0", LoggedService(True, None, False, None, 3.0)),)
    old = msgspec.json.encode({"changes": [["service", "h0", value]], "claims": ["c"]})
    assert decode_commit(1, old) == Commit(1, read, ("c",))
    assert changes.decode(msgspec.json.encode([["service", "h0", value]]), "A checkpoint")[0] == read


def test_fields_and_kinds_that_this_release_does_not_know_are_left_out() -> None:
    value = {"host": "h", "node": "n", "io": False, "flavor": "1", "image": {}, "color": {"deep": [1]}}
    told = [["instance", "i", value], ["volume", "v", {"size": 1}], ["volume", "w", None]]
    body = msgspec.json.encode({"version": 1, "changes": told, "claims": [], "author": "me"})
    assert decode_commit(2, body).changes == (Change("instance", "i", LoggedInstance("h", "n", False, "1", {})),)


@pytest.mark.parametrize("told", [[["instance", "i", None]], {"instance": {"i": None}}])
def test_a_newer_format_is_refused_whatever_it_looks_like(told: object) -> None:
    body = msgspec.json.encode({"version": changes.VERSION + 1, "changes": told, "claims": []})
    with pytest.raises(
        FromNewerRelease, match=r"Commit 9 of the change log was written by a newer release.*is 3.*to 2"
    ):
        decode_commit(9, body)


def test_what_is_broken_is_not_taken_for_newer() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_commit(9, b'{"version": 1, "changes": [["service", "h0", {"disabled": false}]]}')


def test_every_kind_has_a_payload() -> None:
    assert changes._PAYLOADS.keys() == changes.KINDS
