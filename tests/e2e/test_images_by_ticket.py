# SPDX-License-Identifier: Apache-2.0
"""Image transfers between hosts and the real Glance with tickets, for users with and without access to an image."""

import hashlib
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest
import requests

from kilonova.compute.files.images import HostImages
from kilonova.errors import ImageUnusable
from kilonova.images.for_hosts import ImagesForHosts
from kilonova.images.glance import image_of
from kilonova.images.tickets import TicketKey, TicketOffice
from kilonova.model.image import Image
from support.samples import sampled
from support.stock_cloud import StockCloud

pytestmark = pytest.mark.cloud
DEMO = "kilonova-demo"
PATIENCE_S = 30.0
MIB = 1 << 20


class Pattern:
    """Generated data of a given size that is never held in memory. ``len``: the size, as requests expects it."""

    def __init__(self, size: int) -> None:
        self.len = size
        self._left = size
        self._piece = os.urandom(MIB)

    def read(self, size: int = MIB) -> bytes:
        piece = self._piece[: min(size, self._left)]
        self._left -= len(piece)
        return piece

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.read, b"")


@dataclass
class Cloud:
    """Running cloud as seen by a user and by its hosts."""

    stock: StockCloud
    demo: requests.Session
    admin: requests.Session

    @property
    def folder(self) -> Path:
        return self.stock.supervisor.folder

    @property
    def control(self) -> str:
        return f"http://127.0.0.1:{self.stock.supervisor.ports[0]}"

    @property
    def glance(self) -> str:
        return self.stock.supervisor.image

    def new_image(self, data: Any, user: requests.Session | None = None) -> Image:
        """Create a private image; without data it stays queued."""
        user = user or self.demo
        asked = {"name": "own", "disk_format": "raw", "container_format": "bare", "visibility": "private"}
        made = user.post(f"{self.glance}/images", json=asked)
        assert made.status_code == 201, made.text
        url = f"{self.glance}/images/{made.json()['id']}"
        if data is not None:
            put = user.put(f"{url}/file", data=data, headers={"Content-Type": "application/octet-stream"})
            assert put.status_code == 204, put.text
        return image_of(user.get(url).json())

    def status_of(self, image: Image) -> str:
        return str(self.demo.get(f"{self.glance}/images/{image.id}").json()["status"])

    def delete(self, image: Image) -> None:
        assert self.demo.delete(f"{self.glance}/images/{image.id}").status_code == 204

    def boot(self, image_id: str) -> requests.Response:
        flavors = self.demo.get(f"{self.control}/compute/v2.1/flavors").json()["flavors"]
        flavor = next(each["id"] for each in flavors if each["name"] == "m1.tiny")
        server = {"name": "vm", "imageRef": image_id, "flavorRef": flavor, "networks": "none", "adminPass": "Sesam7!"}
        server["user_data"] = "dG9wLXNlY3JldA=="
        headers = {"OpenStack-API-Version": "compute 2.90"}
        return self.demo.post(f"{self.control}/compute/v2.1/servers", json={"server": server}, headers=headers)

    def settled(self, answer: requests.Response) -> dict[str, Any]:
        """Wait for a server to settle, delete it, and return its last view."""
        assert answer.status_code == 202, answer.text
        url = f"{self.control}/compute/v2.1/servers/{answer.json()['server']['id']}"
        deadline = time.monotonic() + PATIENCE_S
        while True:
            server: dict[str, Any] = self.demo.get(url).json()["server"]
            if server["status"] != "BUILD" or time.monotonic() > deadline:
                self.demo.delete(url)
                return server
            time.sleep(0.05)

    def office(self, seconds: float = 600.0) -> TicketOffice:
        """Return a ticket issuer with the control process's key."""
        with closing(sqlite3.connect(f"file:{self.folder}/kilonova.db?mode=ro", uri=True)) as connection:
            (row,) = connection.execute("SELECT id, secret FROM ticket_keys").fetchall()
        return TicketOffice(lambda: (TicketKey(row[0], bytes.fromhex(row[1]), 0.0),), time.time, seconds)

    def offers(self, seconds: float = 600.0) -> ImagesForHosts:
        return ImagesForHosts(self.office(seconds), self.control)

    def host(self) -> str:
        hosts = self.admin.get(f"{self.control}/compute/v2.1/os-services?binary=nova-compute").json()["services"]
        return str(hosts[0]["host"])

    def control_process(self) -> psutil.Process:
        found = [psutil.Process(pid) for pid in self.stock.supervisor.descendants()]
        return next(process for process in found if "api" in " ".join(process.cmdline()).split())


@pytest.fixture(scope="class")
def cloud(stock: StockCloud) -> Cloud:
    return Cloud(stock, stock.supervisor.session(DEMO), stock.supervisor.session())


@pytest.fixture
def images(tmp_path: Path) -> HostImages:
    """Return the image store of a host that the test plays."""
    return HostImages(tmp_path / "_base", max_bytes=1 << 40)


class TestImagesByTicket:
    """Simulated hosts that download the images of their servers."""

    scenario: ClassVar = "zones"

    def test_a_host_reads_the_private_image_of_a_user_once(self, cloud: Cloud) -> None:
        data = os.urandom(3 * MIB)
        image = cloud.new_image(data)
        for _ in range(2):
            assert cloud.settled(cloud.boot(image.id))["status"] == "ACTIVE"
        (kept,) = (cloud.folder / "hypervisors" / "_base").glob(f"{image.id}*")
        assert kept.read_bytes() == data
        log = (cloud.folder / "log" / "control.log").read_text()
        assert log.count(f"read of image {image.id}") == 1

    def test_a_user_without_the_right_is_refused_when_asking(self, cloud: Cloud) -> None:
        image = cloud.new_image(b"of the administrator", cloud.admin)
        refused = cloud.boot(image.id)
        assert (refused.status_code, "could not be found" in refused.text) == (400, True)

    def test_nothing_secret_is_left_anywhere(self, cloud: Cloud) -> None:
        image = cloud.new_image(b"something")
        assert cloud.settled(cloud.boot(image.id))["status"] == "ACTIVE"
        secrets = {str(cloud.demo.headers["X-Auth-Token"]), "Sesam7!", "Bearer"}
        own = (cloud.folder / "passwords.json").read_text()
        secrets |= {part for part in own.split('"') if len(part) > 20}
        with closing(sqlite3.connect(f"file:{cloud.folder}/kilonova.db?mode=ro", uri=True)) as connection:
            names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            told = {name: str(connection.execute(f"SELECT * FROM {name}").fetchall()) for name in names}
            key = connection.execute("SELECT secret FROM ticket_keys").fetchone()[0]
        told |= {path.name: path.read_text() for path in (cloud.folder / "log").glob("*.log")}
        found = {(name, secret) for name, text in told.items() for secret in secrets if secret in text}
        assert found == set()
        user_data = {name for name, text in told.items() if "dG9wLXNlY3JldA==" in text}
        # user data is stored with the server until its deletion, because the user may query it
        assert user_data == {"request_specs"}
        assert {name for name, text in told.items() if key in text} == {"ticket_keys"}

    def test_only_the_right_ticket_is_good(self, cloud: Cloud) -> None:
        image, other, host = cloud.new_image(b"x" * MIB), cloud.new_image(None), cloud.host()
        offers = cloud.offers()
        read, write = offers.to_read(host, image), offers.to_write(host, other.id)
        late = cloud.offers(-1.0).to_read(host, image)
        forged = read.ticket[:-2] + ("AA" if read.ticket[-2:] != "AA" else "BB")

        def status(method: str, url: str, ticket: str | None) -> int:
            headers = {} if ticket is None else {"Authorization": f"Bearer {ticket}"}
            data = b"y" if method == "PUT" else None
            return requests.request(method, url, headers=headers, data=data, timeout=30).status_code

        assert status("GET", read.url, read.ticket) == 200
        for method, url in (("GET", read.url), ("PUT", write.url)):
            for ticket in (None, "nonsense", late.ticket, forged, str(cloud.demo.headers["X-Auth-Token"])):
                assert status(method, url, ticket) == 401, (method, ticket)
        elsewhere = offers.to_read("somewhere-else", image)
        assert status("GET", read.url, elsewhere.ticket) == 403
        assert status("GET", elsewhere.url, elsewhere.ticket) == 403  # no agent serves that host
        assert status("GET", read.url, write.ticket) == 403
        assert status("PUT", read.url, read.ticket) == 403
        assert status("PUT", write.url.replace(other.id, image.id), write.ticket) == 403
        assert cloud.status_of(other) == "queued"

    def test_a_host_brings_an_image(self, cloud: Cloud, images: HostImages, tmp_path: Path) -> None:
        data = os.urandom(3 * MIB + 7)
        (tmp_path / "disk").write_bytes(data)
        image = cloud.new_image(None)
        images.upload(cloud.offers().to_write(cloud.host(), image.id), tmp_path / "disk")
        assert cloud.status_of(image) == "active"
        assert cloud.demo.get(f"{cloud.glance}/images/{image.id}/file").content == data

    def test_an_upload_that_breaks_leaves_an_image_to_upload_to(
        self, cloud: Cloud, images: HostImages, tmp_path: Path
    ) -> None:
        image = cloud.new_image(None)
        offer = cloud.offers().to_write(cloud.host(), image.id)
        path = offer.url.removeprefix(cloud.control)
        with socket.create_connection(("127.0.0.1", cloud.stock.supervisor.ports[0])) as broken:
            head = f"PUT {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {offer.ticket}\r\n"
            broken.sendall(f"{head}Content-Length: {8 * MIB}\r\n\r\n".encode() + bytes(3 * MIB))
            deadline = time.monotonic() + PATIENCE_S
            while cloud.status_of(image) != "saving" and time.monotonic() < deadline:
                time.sleep(0.02)
        while cloud.status_of(image) != "queued" and time.monotonic() < deadline:
            time.sleep(0.02)
        assert cloud.status_of(image) == "queued"
        (tmp_path / "disk").write_bytes(b"whole")
        images.upload(offer, tmp_path / "disk")
        assert cloud.status_of(image) == "active"

    def test_an_image_that_is_deleted_meanwhile(self, cloud: Cloud, images: HostImages) -> None:
        data = os.urandom(20 * MIB)
        image = cloud.new_image(data)
        offer = cloud.offers().to_read(cloud.host(), image)
        headers = {"Authorization": f"Bearer {offer.ticket}"}
        with requests.get(offer.url, headers=headers, stream=True, timeout=30) as answer:
            begun = answer.raw.read(MIB)
            cloud.delete(image)
            assert begun + answer.raw.read() == data
        with pytest.raises(ImageUnusable, match="no longer exists"):
            images.fetch(offer)

    def test_a_large_image_takes_no_memory(self, cloud: Cloud, images: HostImages, tmp_path: Path) -> None:
        size = sampled(1024, sample=96) * MIB
        image = cloud.new_image(Pattern(size))
        offers, host, control = cloud.offers(), cloud.host(), cloud.control_process()
        before = control.memory_info().rss
        file = images.fetch(offers.to_read(host, image))
        assert hashlib.file_digest(file.open("rb"), "sha512").hexdigest() == image.hash_value
        copy = cloud.new_image(None)
        images.upload(offers.to_write(host, copy.id), file)
        assert image_of(cloud.demo.get(f"{cloud.glance}/images/{copy.id}").json()).hash_value == image.hash_value
        assert control.memory_info().rss - before < 48 * MIB
        for each in (image, copy):
            cloud.delete(each)

    def test_images_backups_and_shelved_servers_with_the_stock_clients(self, cloud: Cloud, tmp_path: Path) -> None:
        stock, data = cloud.stock, os.urandom(2 * MIB + 5)
        base = cloud.new_image(data)

        def saved(image_id: str) -> bytes:
            stock.do("image", "save", "--file", str(tmp_path / image_id), image_id, cloud=DEMO)
            return (tmp_path / image_id).read_bytes()

        boot = ("server", "create", "--flavor", "m1.tiny", "--image", base.id, "--wait")
        server = stock.show(*boot, "vm", cloud=DEMO)["id"]
        made = stock.show("server", "image", "create", "--name", "golden", "--wait", server, cloud=DEMO)
        assert (made["name"], made["status"], made["size"]) == ("golden", "active", len(data))
        assert saved(made["id"]) == data
        for number in range(2):
            daily = ("--type", "daily", "--rotate", "1", "--wait", "--name", f"night-{number}")
            stock.do("server", "backup", "create", *daily, server, cloud=DEMO)
        until(lambda: names(stock) == ["golden", "night-1"])
        stock.do("server", "shelve", "--offload", "--wait", server, cloud=DEMO)
        assert stock.show("server", "show", server, cloud=DEMO)["status"] == "SHELVED_OFFLOADED"
        shelved = stock.show("image", "list", "--name", "vm-shelved", cloud=DEMO)[0]["ID"]
        assert saved(shelved) == data
        stock.do("image", "delete", base.id, cloud=DEMO)
        stock.do("server", "unshelve", "--wait", server, cloud=DEMO)
        until(lambda: "vm-shelved" not in names(stock))
        last = stock.show("server", "image", "create", "--name", "last", "--wait", server, cloud=DEMO)["id"]
        assert saved(last) == data
        listed = stock.show("server", "event", "list", server, cloud=DEMO)
        assert {each["Action"] for each in listed} == {"create", "createImage", "createBackup", "shelve", "unshelve"}
        stock.do("server", "delete", "--wait", server, cloud=DEMO)


def names(stock: StockCloud) -> list[str]:
    """Return the names of the user's server images."""
    listed = stock.show("image", "list", "--private", cloud=DEMO)
    return sorted(each["Name"] for each in listed if each["Name"] != "own")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)
