# SPDX-License-Identifier: Apache-2.0
"""``kilonova images``: lists the images in a host's cache, their users (guests) and the time since last use."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console
from rich.text import Text

from kilonova.cli.cloud.options import OPERATOR, AdminCloud, AsJson, DataFolder, connect
from kilonova.cli.cloud.printing import counted, output_console, plain_table, print_json
from kilonova.errors import InvalidRequest, NotFound

_SHOWN = 3
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_AGES = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def images(
    host: Annotated[str, typer.Argument(metavar="HOST", help="The host.")],
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
    as_json: AsJson = False,
) -> None:
    """List the images that a host caches, with their sizes, the guests that use them, and the time since last use."""
    try:
        answer = connect(data, os_cloud).get(OPERATOR, f"/hosts/{quote(host, safe='')}/images")
    except NotFound as error:
        raise InvalidRequest(error.message) from None
    if as_json:
        print_json(answer)
    else:
        show_images(answer, output_console())


# --- output -----------------------------------------------------------------------------------------------------------


def show_images(answer: Mapping[str, Any], console: Console) -> None:
    """Print a line for each cached image, and the total size."""
    found = answer["images"]
    if not found:
        console.print(f"Host {answer['host']} caches no images.", markup=False)
        return
    table = plain_table("Image", "Format", "Size", "Unused for", "Guests")
    for each in found:
        table.add_row(
            Text(each["image"] or each["name"]),
            Text(each["disk_format"] or "as it came"),
            _size(each["size_bytes"]),
            "in use" if each["guests"] else _age(each["unused_s"]),
            Text(_some(each["guests"])),
        )
    console.print(table)
    total = sum(each["size_bytes"] for each in found)
    console.print(f"{counted(len(found), 'file')}, {_size(total)}")


def _size(size_bytes: float) -> str:
    for unit in _UNITS[:-1]:
        if size_bytes < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} {_UNITS[-1]}"


def _age(seconds: int) -> str:
    for length, unit in _AGES:
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return "0 s"


def _some(guests: Sequence[str]) -> str:
    shown = ", ".join(guests[:_SHOWN])
    return f"{shown} and {len(guests) - _SHOWN} more" if len(guests) > _SHOWN else shown
