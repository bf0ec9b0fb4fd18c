# SPDX-License-Identifier: Apache-2.0
"""Links in replies of the compute API, and paging of lists by marker and limit."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from kilonova.api.http import Context, Request
from kilonova.errors import InvalidRequest

T = TypeVar("T")


def bookmark_links(request: Request, path: str) -> list[dict[str, str]]:
    """Return the self and bookmark links of a resource."""
    return [
        {"rel": "self", "href": f"{request.root_url}/v2.1/{path}"},
        {"rel": "bookmark", "href": f"{request.root_url}/{path}"},
    ]


def next_page(
    ctx: Context, request: Request, items: Sequence[T], key: Callable[[T], str], name: str, *, limit: int | None
) -> tuple[list[T], dict[str, Any]]:
    """Return the page of ``items`` after the request's marker, and the reply's field with the link to the next page.

    The field is ``{<name>_links: …}``, or ``{}`` on the last page. ``key``: returns the marker of an item.
    Raises: InvalidRequest for a marker that no item has.
    """
    maximum = ctx.backend.settings.api.max_limit
    size = maximum if limit is None else min(limit, maximum)
    start = 0
    marker = request.param("marker")
    if marker is not None:
        keys = [key(item) for item in items]
        if marker not in keys:
            raise InvalidRequest(f"marker [{marker}] not found")
        start = keys.index(marker) + 1
    page = list(items[start : start + size])
    if not page or start + size >= len(items):
        return page, {}
    return page, {f"{name}_links": [next_link(request, key(page[-1]))]}


def next_link(request: Request, marker: str) -> dict[str, str]:
    """Return the link to the page after ``marker``. The link keeps all other query parameters of the request."""
    query = [(name, value) for name, values in request.query.items() if name != "marker" for value in values]
    base = request.url.split("?")[0]
    return {"rel": "next", "href": f"{base}?{urlencode([*query, ('marker', marker)])}"}
