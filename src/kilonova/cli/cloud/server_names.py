# SPDX-License-Identifier: Apache-2.0
"""Finds the id of a server by the name that an operator gave."""

import re

from kilonova.cli.cloud.options import Api
from kilonova.errors import InvalidRequest

UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def server_id(api: Api, name: str, *, neither: str = "no server") -> str:
    """Return the id of the only server with this name. ``neither``: start of the error if no server has the name.

    Raises: InvalidRequest if no server or several servers have the name.
    """
    listed = api.get("compute", "/servers", name=f"^{re.escape(name)}$", all_tenants="1")["servers"]
    found = [server["id"] for server in listed if server["name"] == name]
    if len(found) > 1:
        raise InvalidRequest(f"{len(found)} servers have the name {name}; give an id: {', '.join(found)}")
    if not found:
        raise InvalidRequest(f"{neither} has the name {name}")
    return str(found[0])
