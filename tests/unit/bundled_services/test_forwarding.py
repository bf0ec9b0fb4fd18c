# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from kilonova.bundled_services.forwarding import Forwarding


def test_only_what_was_enabled_is_disabled_again(tmp_path: Path) -> None:
    devices, note = tmp_path / "conf", tmp_path / "note"
    for name, value in {"eth0": "0", "eth1": "1", "veth": "0"}.items():
        (devices / name).mkdir(parents=True)
        (devices / name / "forwarding").write_text(f"{value}\n")

    def forwarding() -> dict[str, str]:
        return {folder.name: (folder / "forwarding").read_text().strip() for folder in devices.iterdir()}

    first = Forwarding(note, devices)
    closed = first.closed({"eth0", "eth1"})
    assert closed == ["eth0"]
    first.open(closed, "veth")
    assert forwarding() == {"eth0": "1", "eth1": "1", "veth": "1"}
    Forwarding(note, devices).undo()  # also in another process
    assert forwarding() == {"eth0": "0", "eth1": "1", "veth": "1"}
    assert not note.exists()


def test_a_device_that_is_gone_needs_no_change(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("eth7")
    Forwarding(tmp_path / "note", tmp_path).undo()
    assert not (tmp_path / "note").exists()
