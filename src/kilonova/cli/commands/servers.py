# SPDX-License-Identifier: Apache-2.0
"""``kilonova servers``: operations on servers that administrators need and Nova's API lacks."""

from typing import Annotated

import typer

from kilonova.cli.cloud.options import OPERATOR, AdminCloud, AsJson, DataFolder, WritableApi, connect
from kilonova.cli.cloud.printing import print_json
from kilonova.cli.cloud.server_names import UUID, server_id
from kilonova.errors import Conflict, InvalidRequest, NotFound

app = typer.Typer(no_args_is_help=True, help="Count servers, remove a server from its group, replace its hints.")
_Server = Annotated[str, typer.Argument(metavar="SERVER", help="Name or id.")]


@app.command("count")
def count(
    filters: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE…", help="Filters of GET /servers, such as status=ERROR.")
    ] = None,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
    as_json: AsJson = False,
) -> None:
    """Print the number of servers of all projects that match all filters."""
    answer = connect(data, os_cloud).get(OPERATOR, "/servers/count", **{"all_tenants": "1", **_pairs(filters)})
    if as_json:
        print_json(answer)
    else:
        print(answer["count"])


@app.command("leave-group")
def leave_group(
    server: _Server,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Id of the server group.")],
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
) -> None:
    """Remove a server from its server group.

    The server stays on its host, and the group's policy no longer applies to it.
    """
    api = connect(data, os_cloud)
    _change(api, "POST", server, "leave-group", {"leave_group": {"server_group": group}})
    print(f"Server {server} is no longer a member of server group {group}.")


@app.command("set-hints")
def set_hints(
    server: _Server,
    hints: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE…", help="All new hints; a name may be repeated.")
    ] = None,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
    as_json: AsJson = False,
) -> None:
    """Replace the scheduler hints of a server, except the hint of its group.

    The next moves of the server use the new hints.
    """
    given: dict[str, list[str]] = {}
    for name, value in map(_pair, hints or ()):
        given.setdefault(name, []).append(value)
    asked = {name: values[0] if len(values) == 1 else values for name, values in given.items()}
    answer = _change(connect(data, os_cloud), "PUT", server, "hints", {"hints": asked})
    if as_json:
        print_json(answer)
    else:
        kept = ", ".join(f"{name}={value}" for name, value in answer["hints"].items())
        print(f"Hints of server {server}: {kept or 'none'}")


def _change(api: WritableApi, method: str, server: str, what: str, body: object) -> dict[str, dict[str, object]]:
    uuid = server if UUID.fullmatch(server) else server_id(api, server)
    try:
        answer: dict[str, dict[str, object]] = api.call(method, OPERATOR, f"/servers/{uuid}/{what}", json=body)
    except (NotFound, Conflict) as error:
        raise InvalidRequest(error.message) from None
    return answer


def _pairs(texts: list[str] | None) -> dict[str, str]:
    return dict(map(_pair, texts or ()))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InvalidRequest(f"{text!r} is not NAME=VALUE")
    return name, value
