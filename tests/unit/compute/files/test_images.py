# SPDX-License-Identifier: Apache-2.0
"""What a host does to have an image, with a control plane that answers as a test wants."""

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.fake import FakeDriver
from kilonova.errors import DriverError, ImageUnusable
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec
from kilonova.scenario.model import SimulatedHost
from kilonova.server.listening import tls_context
from support.certificates import Authority
from support.http_clients import Serving, serving

DATA = os.urandom(300_000)
SHA = hashlib.sha512(DATA).hexdigest()


@dataclass
class ControlPlane:
    """Sends ``data``, or what ``answers`` say first: a status, or after how many bytes it breaks off."""

    data: bytes = DATA
    answers: list[tuple[int, int | None]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    taken: bytes = b""
    gate: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        self.asked.append(environ)
        status, until = self.answers.pop(0) if self.answers else (200, None)
        if environ["REQUEST_METHOD"] == "PUT":
            self.taken = environ["wsgi.input"].read()
            digest = hashlib.sha512(self.taken).hexdigest()
            body = f'{{"size": {len(self.taken)}, "os_hash_algo": "sha512", "os_hash_value": "{digest}"}}'.encode()
            start_response(f"{status} Whatever", [])
            return [body]
        start = int(environ.get("HTTP_RANGE", "bytes=0-")[6:-1])
        if status == 200 and start:
            status = 206
        body = self.data[start:] if status < 300 else b""
        start_response(f"{status} Whatever", [("Content-Length", str(len(body)))])
        self.gate.wait(10)
        return self._pieces(body, until)

    def _pieces(self, body: bytes, until: int | None) -> Iterator[bytes]:
        # More than the server keeps back at first, so that the break comes after the headers.
        for at in range(0, len(body), 50_000):
            if until is not None and at >= until:
                raise ConnectionError("broken off")
            yield body[at : at + 50_000]


@pytest.fixture
def plane() -> ControlPlane:
    return ControlPlane()


@pytest.fixture
def served(plane: ControlPlane) -> Iterator[Serving]:
    with serving(plane, streams=lambda method, _path: method == "PUT") as served:
        yield served


@pytest.fixture
def image(served: Serving) -> ImageData:
    return ImageData("image-1", "", f"http://127.0.0.1:{served.port}/file", "ticket-1", len(DATA), "sha512", SHA)


def host_images(folder: Path, max_bytes: int = 1 << 40) -> HostImages:
    return HostImages(folder, max_bytes=max_bytes, sleep=lambda _s: None)


def test_an_image_is_fetched_once_and_kept(tmp_path: Path, plane: ControlPlane, image: ImageData) -> None:
    file = host_images(tmp_path).fetch(image)
    assert file.read_bytes() == DATA
    assert host_images(tmp_path).fetch(replace(image, ticket="another")) == file
    assert [each["HTTP_AUTHORIZATION"] for each in plane.asked] == ["Bearer ticket-1"]
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_many_guests_wait_for_one_transfer(tmp_path: Path, plane: ControlPlane, image: ImageData) -> None:
    images = host_images(tmp_path)
    plane.gate.clear()
    with ThreadPoolExecutor(8) as pool:
        files = [pool.submit(images.fetch, image) for _ in range(8)]
        plane.gate.set()
        assert len({each.result(10) for each in files}) == 1
    assert len(plane.asked) == 1


@pytest.mark.parametrize("refusal", [(502, None), (500, None)])
def test_what_may_be_better_next_time_is_tried_again(
    tmp_path: Path, plane: ControlPlane, image: ImageData, refusal: tuple[int, int | None]
) -> None:
    plane.answers = [refusal] * 3
    assert host_images(tmp_path).fetch(image).read_bytes() == DATA
    assert len(plane.asked) == 4
    plane.answers = [refusal] * 9
    with pytest.raises(DriverError, match="could not be transferred") as raised:
        host_images(tmp_path / "other").fetch(image)
    assert not isinstance(raised.value, ImageUnusable)
    assert list((tmp_path / "other").iterdir()) == []


def test_a_host_waits_for_its_turn_as_long_as_that_takes(tmp_path: Path, plane: ControlPlane, image: ImageData) -> None:
    pauses: list[float] = []
    images = HostImages(tmp_path, max_bytes=1 << 40, retries=0, sleep=pauses.append)
    plane.answers = [(503, None)] * 30
    assert images.fetch(image).read_bytes() == DATA
    assert len(pauses) == 30
    assert 0 < min(pauses) < max(pauses) <= 8


def test_a_transfer_that_breaks_goes_on_where_it_was(tmp_path: Path, plane: ControlPlane, served: Serving) -> None:
    plane.data = os.urandom(4_000_000)
    image = ImageData(
        "big", url=f"http://127.0.0.1:{served.port}/", size_bytes=4_000_000, hash_algo="sha256",
        hash_value=hashlib.sha256(plane.data).hexdigest(),
    )  # fmt: skip
    plane.answers = [(200, 2_500_000), (200, 1_100_000)]
    assert host_images(tmp_path).fetch(image).read_bytes() == plane.data
    starts = [int(each.get("HTTP_RANGE", "bytes=0-")[6:-1]) for each in plane.asked]
    assert starts[0] == 0 < starts[1] < starts[2]


@pytest.mark.parametrize(("status", "said"), [(401, "ticket"), (404, "no longer exists"), (403, "403"), (409, "409")])
def test_what_is_refused_for_good_is_not_the_fault_of_the_host(
    tmp_path: Path, plane: ControlPlane, image: ImageData, status: int, said: str
) -> None:
    plane.answers = [(status, None)]
    with pytest.raises(ImageUnusable, match=said):
        host_images(tmp_path).fetch(image)
    assert len(plane.asked) == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"hash_value": "0" * 128}, "sha512 checksum"),
        ({"size_bytes": len(DATA) - 1}, "larger"),
        ({"size_bytes": len(DATA) + 1}, "300000 bytes instead of 300001"),
    ],
)
def test_what_is_not_the_image_is_never_kept(
    tmp_path: Path, image: ImageData, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(ImageUnusable, match=said):
        host_images(tmp_path).fetch(replace(image, **wrong))
    assert list(tmp_path.iterdir()) == []


def test_without_a_checksum_the_size_has_to_do(tmp_path: Path, image: ImageData) -> None:
    for algorithm in ("", "crc-of-tomorrow"):
        plain = replace(image, image_id=f"plain-{algorithm}", hash_algo=algorithm, hash_value="x" * len(algorithm))
        assert host_images(tmp_path).fetch(plain).read_bytes() == DATA


def test_other_data_under_the_same_name_is_fetched_anew(tmp_path: Path, plane: ControlPlane, image: ImageData) -> None:
    images = host_images(tmp_path)
    first = images.fetch(image)
    plane.data = b"other"
    other = replace(image, size_bytes=5, hash_value=hashlib.sha512(b"other").hexdigest())
    assert (images.fetch(other).read_bytes(), first.read_bytes()) == (b"other", DATA)


def test_an_id_is_no_way_out_of_the_folder(tmp_path: Path, image: ImageData) -> None:
    file = host_images(tmp_path / "_base").fetch(replace(image, image_id="../../evil"))
    assert file.parent == tmp_path / "_base"


def test_images_used_longest_ago_make_room(tmp_path: Path, image: ImageData) -> None:
    images = host_images(tmp_path, max_bytes=2 * len(DATA))
    for number, used_at in ((1, 100), (2, 300), (3, 200)):
        os.utime(images.fetch(replace(image, image_id=f"i{number}")), (used_at, used_at))
    kept = {path.name.partition(".")[0] for path in tmp_path.iterdir()}
    assert kept == {"i2", "i3"}
    images.fetch(replace(image, image_id="i3"))
    images.fetch(replace(image, image_id="i4"))
    assert {path.name.partition(".")[0] for path in tmp_path.iterdir()} == {"i3", "i4"}


def test_a_shared_folder_is_read_without_asking_anybody(tmp_path: Path, plane: ControlPlane, image: ImageData) -> None:
    shared = tmp_path / "gl nce" / "image-1"
    shared.parent.mkdir()
    shared.write_bytes(DATA)
    there = replace(image, location=shared.as_uri())
    assert host_images(tmp_path / "a").fetch(there).read_bytes() == DATA
    assert plane.asked == []
    shared.write_bytes(b"damaged")
    assert host_images(tmp_path / "b").fetch(there).read_bytes() == DATA
    assert host_images(tmp_path / "c").fetch(replace(image, location="rbd://pool/x")).read_bytes() == DATA
    assert len(plane.asked) == 2
    with pytest.raises(DriverError, match="no access"):
        host_images(tmp_path / "d").fetch(replace(there, url=""))


def test_a_full_disk_is_the_fault_of_the_host(tmp_path: Path, image: ImageData) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DriverError, match="cannot store image image-1") as raised:
        host_images(tmp_path / "file").fetch(image)
    assert not isinstance(raised.value, ImageUnusable)


def test_a_password_in_a_netrc_does_not_replace_the_ticket(
    tmp_path: Path, plane: ControlPlane, image: ImageData, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    host_images(tmp_path / "_base").fetch(image)
    assert plane.asked[0]["HTTP_AUTHORIZATION"] == "Bearer ticket-1"


def test_an_upload_arrives_whole(tmp_path: Path, plane: ControlPlane, image: ImageData) -> None:
    (tmp_path / "disk").write_bytes(DATA)
    plane.answers = [(502, None)]
    host_images(tmp_path / "_base").upload(image, tmp_path / "disk")
    assert (plane.taken, len(plane.asked)) == (DATA, 2)
    plane.answers = [(409, None)]
    with pytest.raises(ImageUnusable, match="409"):
        host_images(tmp_path / "_base").upload(image, tmp_path / "disk")
    with pytest.raises(DriverError, match="cannot read"):
        host_images(tmp_path / "_base").upload(image, tmp_path / "none")


def test_a_simulated_host_reads_the_image_of_a_new_guest(tmp_path: Path, plane: ControlPlane, image: ImageData) -> None:
    guest = GuestSpec(uuid="uuid-1", name="instance-1", hostname="vm", vcpus=1, memory_mib=64, root_gib=1, image=image)
    images = host_images(tmp_path / "_base")
    ratios = AllocationRatios(1.0, 1.0, 1.0, 0)
    driver = FakeDriver(SimulatedHost("node1"), tmp_path / "node1.json", ratios, images=images)
    plane.answers = [(404, None)]
    with pytest.raises(ImageUnusable):
        driver.spawn(guest)
    assert driver.list_guests() == {}
    driver.spawn(guest)
    driver.spawn(guest)
    driver.spawn(replace(guest, uuid="uuid-2"))
    assert (len(driver.list_guests()), len(plane.asked)) == (2, 2)


def test_nothing_that_shows_a_guest_shows_its_ticket(image: ImageData) -> None:
    guest = GuestSpec(
        uuid="uuid-1",
        name="instance-1",
        hostname="vm",
        vcpus=1,
        memory_mib=64,
        root_gib=1,
        image=image,
        user_data="c2VjcmV0",
    )
    assert "ticket-1" not in repr(guest)
    assert "c2VjcmV0" not in repr(guest)


def test_the_control_plane_shows_a_certificate(tmp_path: Path, plane: ControlPlane, image: ImageData) -> None:
    authority = Authority(tmp_path)
    shown = authority.certify("control", host="localhost")
    tls = tls_context(str(shown.cert_file), str(shown.key_file), "test")
    with serving(plane, tls=tls) as served:
        there = replace(image, url=f"https://localhost:{served.port}/")
        for number, verify in enumerate((True, str(tmp_path / "nothing.pem"))):
            with pytest.raises(DriverError, match="could not be transferred"):
                HostImages(tmp_path / str(number), max_bytes=1, verify=verify, sleep=lambda _s: None).fetch(there)
        assert plane.asked == []
        for folder, trusted in (("a", str(authority.ca_file)), ("b", False)):
            images = HostImages(tmp_path / folder, max_bytes=1, verify=trusted)
            assert images.fetch(there).read_bytes() == DATA
