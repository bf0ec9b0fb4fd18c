# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.bundled_services.libvirt_leftovers import forget_ended, tidy_logs
from kilonova.bundled_services.settings import LOG_BYTES


@pytest.mark.parametrize("name", ["guest", "instance-[1]*"])
def test_only_notes_of_guests_that_still_run_stay(tmp_path: Path, name: str) -> None:
    notes, sockets = tmp_path / "notes", tmp_path / "sockets"
    notes.mkdir()
    for guest, pid in ((name, " pid='42'"), ("alive", " pid='7'"), ("broken", "")):
        (notes / f"{guest}.xml").write_text(f"<!-- --><domstatus state='running'{pid}><domain pid='1'/></domstatus>")
        (notes / f"{guest}.pid").write_text("1")
        (sockets / "lib" / f"domain-1-{guest}").mkdir(parents=True)
    (sockets / "lib" / "domain-2-other").mkdir()
    forget_ended(notes, sockets, lambda pid: pid == 7)
    assert sorted(file.name for file in notes.iterdir()) == ["alive.pid", "alive.xml"]
    assert sorted(file.name for file in (sockets / "lib").iterdir()) == ["domain-1-alive", "domain-2-other"]


def test_logs_are_rotated_once_and_those_of_removed_guests_go(tmp_path: Path) -> None:
    log, guests, definitions = tmp_path / "libvirtd.log", tmp_path / "guests", tmp_path / "definitions"
    guests.mkdir()
    definitions.mkdir()
    tidy_logs(log, guests, definitions)
    log.write_bytes(b"x" * LOG_BYTES)
    tidy_logs(log, guests, definitions)
    assert log.exists(), "it is not too large yet"
    log.write_bytes(b"x" * (LOG_BYTES + 1))
    (guests / "gone.log").touch()
    (guests / "kept.log").touch()
    (definitions / "kept.xml").touch()
    tidy_logs(log, guests, definitions)
    assert sorted(file.name for file in tmp_path.glob("*.log*")) == ["libvirtd.log.1"]
    assert [file.name for file in guests.iterdir()] == ["kept.log"]
