# SPDX-License-Identifier: Apache-2.0
"""Carrying out of plans through the compute API."""

from itertools import groupby
from typing import Any

from support.control import Control


def carry_out(control: Control, moves: list[dict[str, Any]]) -> None:
    """Carry the moves out through the compute API; a wave begins when the previous one has ended."""
    for _, wave in groupby(moves, key=lambda move: move["wave"]):
        some = list(wave)
        for move in some:
            name = "os-migrateLive" if move["live"] else "migrate"
            asked = {"host": move["to"], **({"block_migration": "auto"} if move["live"] else {})}
            assert control.admin.post(f"/servers/{move['server']}/action", {name: asked}).status == 202
        control.settle()
        for move in some:
            if not move["live"]:
                assert control.admin.post(f"/servers/{move['server']}/action", {"confirmResize": None}).status == 204
        control.settle()
        for move in some:
            assert host_of(control, move["server"]) == move["to"]


def host_of(control: Control, server: str) -> str:
    return str(control.admin.get(f"/servers/{server}").body["server"]["OS-EXT-SRV-ATTR:host"])
