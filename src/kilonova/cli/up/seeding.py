# SPDX-License-Identifier: Apache-2.0
"""Creation of the first flavors and the first image of a new cloud. If they are deleted, they are not created again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests
from keystoneauth1.exceptions import ClientException
from keystoneauth1.identity.v3 import Password
from keystoneauth1.session import Session

from kilonova.bundled_services.private_file import write_private
from kilonova.bundled_services.settings import Account
from kilonova.cli.up import first_image
from kilonova.cli.up.first_image import FirstImage
from kilonova.errors import Unavailable
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class FirstFlavor:
    id: str
    name: str
    memory_mib: int
    disk_gib: int
    vcpus: int


FLAVORS = (
    FirstFlavor("1", "m1.tiny", 512, 1, 1),
    FirstFlavor("2", "m1.small", 2048, 20, 1),
    FirstFlavor("3", "m1.medium", 4096, 40, 2),
    FirstFlavor("4", "m1.large", 8192, 80, 4),
    FirstFlavor("5", "m1.xlarge", 16384, 160, 8),
)


def session_of(account: Account, auth_url: str) -> Session:
    """Return a session of ``account`` for requests to the services on this machine, without HTTP proxies."""
    direct = requests.Session()
    direct.trust_env = False
    login = Password(
        auth_url,
        username=account.user,
        password=account.password,
        project_name=account.project,
        user_domain_name="Default",
        project_domain_name="Default",
    )
    return Session(session=direct, auth=login)


def call(session: Session, method: str, url: str, accept: tuple[int, ...], **arguments: Any) -> requests.Response:
    """Send a request and return the answer. Raises: Unavailable if its status is not one of ``accept``."""
    reply: requests.Response = session.request(url, method, raise_exc=False, **arguments)
    if reply.status_code not in accept:
        raise Unavailable(f"{method} {url} answered {reply.status_code}: {reply.text[:500]}")
    return reply


class FirstContents:
    """The first flavors and image of a new cloud. ``mark``: file that is written when they have been created."""

    def __init__(
        self, mark: Path, admin: Account, auth_url: str, compute_url: str, image_url: str, image: FirstImage
    ) -> None:
        self._mark = mark
        self._image = image
        self._compute_url = compute_url
        self._image_url = image_url
        self._session = session_of(admin, auth_url)

    def create(self, tick: Callable[[], None]) -> None:
        """Create missing flavors and the image. If the creation is interrupted, the next start completes it.

        ``tick``: called after each flavor. Raises: Unavailable.
        """
        try:
            for flavor in FLAVORS:
                self._create_flavor(flavor)
                tick()
            self._create_image()
        except (ClientException, requests.RequestException) as error:
            raise Unavailable(f"creating the first flavors and image failed: {error}") from error
        write_private(self._mark, self._image.description)

    def _create_flavor(self, flavor: FirstFlavor) -> None:
        body = {
            "id": flavor.id,
            "name": flavor.name,
            "ram": flavor.memory_mib,
            "disk": flavor.disk_gib,
            "vcpus": flavor.vcpus,
        }
        self._call("POST", f"{self._compute_url}/flavors", accept=(200, 409), json={"flavor": body})

    def _create_image(self) -> None:
        images = f"{self._image_url}/v2/images"
        for found in self._call("GET", f"{images}?name={first_image.NAME}&visibility=public").json()["images"]:
            if found["status"] == "active":
                return
            self._call("DELETE", f"{images}/{found['id']}", accept=(204,))  # the upload of this image was interrupted
        image = {
            "name": first_image.NAME,
            "disk_format": self._image.disk_format,
            "container_format": "bare",
            "visibility": "public",
        }
        made = self._call("POST", images, accept=(201,), json=image).json()
        self._call(
            "PUT",
            f"{images}/{made['id']}/file",
            accept=(204,),
            data=self._image.content(),
            headers={"Content-Type": "application/octet-stream"},
        )

    def _call(self, method: str, url: str, accept: tuple[int, ...] = (200,), **arguments: Any) -> requests.Response:
        return call(self._session, method, url, accept, **arguments)
