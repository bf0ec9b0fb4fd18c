# SPDX-License-Identifier: Apache-2.0
"""Lookup and removal of Glance images with the credentials of Kilonova's own user."""

import logging
from typing import Any
from urllib.parse import quote, urlencode

from keystoneauth1 import exceptions
from keystoneauth1.session import Session

from kilonova.errors import Unavailable
from kilonova.images.endpoints import Endpoints
from kilonova.images.glance import image_of
from kilonova.model.image import Image

LOG = logging.getLogger(__name__)
_OK, _NO_CONTENT, _FORBIDDEN = 200, 204, 403
_GONE = frozenset({400, 404, 410})
_BACKUP_OF = ("image_type", "backup_type", "instance_uuid", "owner")
#: Maximum number of backups listed for one server and backup type: the page limit of Glance.
_BACKUPS = 1000


class GlanceKeeper:
    """An ``ImageKeeper`` in Glance. ``session``: session of Kilonova's user; ``endpoints``: URLs without ``/v2``."""

    def __init__(self, session: Session, *endpoints: str) -> None:
        self._glance = Endpoints(session, endpoints)

    def find(self, image_id: str) -> Image | None:
        content = self._content(image_id)
        return None if content is None else image_of(content)

    def remove(self, image_id: str) -> None:
        answer = self._ask("DELETE", _path(image_id))
        if answer.status_code == _FORBIDDEN:
            LOG.warning("Image %s was not removed: the image service denies this to Kilonova's user", image_id)
        elif answer.status_code != _NO_CONTENT and answer.status_code not in _GONE:
            raise _not_understood(answer)

    def backups_like(self, image_id: str) -> tuple[str, ...]:
        content = self._content(image_id)
        if content is None or not all(content.get(name) for name in _BACKUP_OF):
            return ()
        wanted = {name: str(content[name]) for name in _BACKUP_OF}
        query = urlencode(wanted | {"visibility": "all", "sort": "created_at:desc,id:desc", "limit": str(_BACKUPS)})
        answer = self._ask("GET", f"/v2/images?{query}")
        if answer.status_code != _OK:
            raise _not_understood(answer)
        found = answer.json()["images"]
        # Glance may ignore a filter that it does not know, so images that do not match the filters are left out here.
        return tuple(each["id"] for each in found if all(each.get(name) == wanted[name] for name in wanted))

    def _content(self, image_id: str) -> Any:
        answer = self._ask("GET", _path(image_id))
        if answer.status_code in _GONE:
            return None
        if answer.status_code != _OK:
            raise _not_understood(answer)
        return answer.json()

    def _ask(self, method: str, path: str) -> Any:
        try:
            return self._glance.request(path, method, redirect=False)
        except exceptions.ClientException as error:
            raise Unavailable("The image service cannot be reached with the credentials of Kilonova's user.") from error


def _path(image_id: str) -> str:
    return f"/v2/images/{quote(image_id, safe='')}"


def _not_understood(answer: Any) -> Unavailable:
    return Unavailable(f"The image service answered {answer.status_code}.")
