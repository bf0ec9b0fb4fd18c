# SPDX-License-Identifier: Apache-2.0
"""Access of users to the images in Glance. Each request is sent with the user's own token."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from keystoneauth1 import exceptions
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session

from kilonova.errors import Conflict, Forbidden, InvalidRequest, NotFound, Unavailable
from kilonova.images.glance import image_of, quoted
from kilonova.images.proxied import ImageFilter, ProxiedImage

_TIMEOUT_S = 10.0
_PATCH = "application/openstack-images-v2.1-json-patch"
#: Prefix of image properties that only Glance may change.
_KEPT = "os_glance_"
#: Query parameters of Glance's image list that do not filter by a property.
_NO_PROPERTIES = frozenset({"limit", "marker", "sort", "sort_key", "sort_dir", "visibility", "member_status"})


class GlanceProxy:
    """An ``ImageProxy`` to Glance. ``endpoint``: URL of the service without ``/v2``."""

    def __init__(self, endpoint: str) -> None:
        self._glance = Adapter(Session(timeout=_TIMEOUT_S), endpoint_override=endpoint.rstrip("/"))

    def page(self, wanted: ImageFilter, *, limit: int, marker: str | None, token: str | None) -> Sequence[ProxiedImage]:
        query = _query(wanted) | {"limit": str(limit)} | ({} if marker is None else {"marker": marker})
        following: str | None = f"/v2/images?{urlencode(query)}"
        found: list[ProxiedImage] = []
        while following and len(found) < limit:  # Glance may return shorter pages than requested
            answer = self._ask("GET", following, token).json()
            found += [_image(content) for content in answer["images"]]
            following = answer.get("next")
        return found[:limit]

    def get(self, image_id: str, *, token: str | None) -> ProxiedImage:
        return _image(self._ask("GET", _path(image_id), token, image_id).json())

    def remove(self, image_id: str, *, token: str | None) -> None:
        self._ask("DELETE", _path(image_id), token, image_id)

    def set_properties(self, image: ProxiedImage, properties: Mapping[str, str], *, token: str | None) -> None:
        gone = [name for name in image.properties if name not in properties and not name.startswith(_KEPT)]
        new = {name: value for name, value in properties.items() if image.properties.get(name) != value}
        changes = [
            *({"op": "remove", "path": _pointer(name)} for name in gone),
            *({"op": "add", "path": _pointer(name), "value": value} for name, value in new.items()),
        ]
        if changes:
            self._ask("PATCH", _path(image.id), token, image.id, json=changes, headers={"Content-Type": _PATCH})

    def _ask(
        self, method: str, path: str, token: str | None, image_id: str = "", headers: Any = None, **more: Any
    ) -> Any:
        """Return the answer to a successful request. Raises: the error that matches the status."""
        sent = {**(headers or {}), "X-Auth-Token": token or ""}
        try:
            answer = self._glance.request(
                path, method, headers=sent, authenticated=False, raise_exc=False, redirect=False, **more
            )
        except exceptions.ClientException as error:
            raise Unavailable("The image service cannot be reached.") from error
        match answer.status_code:
            case 200 | 204:
                return answer
            case 400 if not image_id:
                raise InvalidRequest("The image service refused the query.")
            case 400 if method == "PATCH":
                raise InvalidRequest("The image service refused these properties.")
            case 401 | 403 | 413:
                raise Forbidden("The image service forbids this operation.")
            case 400 | 404:
                raise NotFound(f"Image {image_id} could not be found.")
            case 409:
                raise Conflict(f"Image {image_id} is in use.")
        raise Unavailable(f"The image service answered {answer.status_code}.")


def _query(wanted: ImageFilter) -> dict[str, str]:
    properties = {name: value for name, value in wanted.properties.items() if name not in _NO_PROPERTIES}
    named = {
        "name": None if wanted.name is None else f"in:{quoted(wanted.name)}",
        "status": wanted.status,
        "min_ram": wanted.min_memory_mib,
        "min_disk": wanted.min_disk_gib,
        "updated_at": None if wanted.changed_since is None else f"gte:{wanted.changed_since}",
    }
    return properties | {name: value for name, value in named.items() if value is not None}


def _path(image_id: str) -> str:
    return f"/v2/images/{quote(image_id, safe='')}"


def _pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _image(content: Mapping[str, Any]) -> ProxiedImage:
    image = image_of(content)
    return ProxiedImage(
        image.id,
        content.get("name"),
        image.status,
        image.min_memory_mib,
        image.min_disk_gib,
        image.size_bytes,
        image.properties,
        content.get("created_at"),
        content.get("updated_at"),
    )
