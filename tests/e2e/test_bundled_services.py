# SPDX-License-Identifier: Apache-2.0
"""Supervisor with the real Keystone and Glance, and a fake control process."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from kilonova.bundled_services.free_ports import free_ports
from kilonova.cli.up import tiny_image
from support.samples import sampled
from support.stock_cloud import StockCloud
from support.supervisor import Supervisor
from support.waiting import wait_until

pytestmark = pytest.mark.cloud

UP = Path(__file__).with_name("up_with_stand_in.py")


def supervisor_of(folder: Path) -> Supervisor:
    return Supervisor(folder, command=(sys.executable, str(UP)))


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    supervisor = supervisor_of(tmp_path_factory.mktemp("cloud")).start()
    yield supervisor.until_ready()
    supervisor.stop()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Supervisor]:
    supervisor = supervisor_of(tmp_path / "data")
    yield supervisor
    supervisor.stop()


def test_one_line_says_ready_and_three_say_what_to_type(cloud: Supervisor) -> None:
    assert cloud.process.stdout is not None
    assert sum("ready" in line for line in cloud.lines) == 1
    following = [cloud.process.stdout.readline() for _ in range(3)]
    assert following[0] == f"  export OS_CLIENT_CONFIG_FILE={cloud.folder}/clouds.yaml\n"
    assert following[1] == "  export OS_CLOUD=kilonova\n"
    assert following[2].endswith("openstack server create --flavor m1.tiny --image tiny --wait first\n")


def test_the_stock_client_gets_a_token_and_makes_an_image(cloud: Supervisor, tmp_path: Path) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(os.urandom(100_000))
    environment = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(cloud.folder / "clouds.yaml"), "OS_CLOUD": "kilonova"}
    client = [str(Path(sys.executable).with_name("openstack")), "token", "issue", "-f", "value", "-c", "id"]
    issued = subprocess.run(client, env=environment, check=True, capture_output=True, text=True, timeout=60)
    assert issued.stdout.strip()
    stock = StockCloud(cloud)
    upload = ("image", "create", "--file", str(disk), "--disk-format", "raw", "disk")
    assert "active" in stock.do(*upload, "-f", "value", "-c", "status")
    assert stock.do("image", "list", "-f", "value", "-c", "Name").split() == ["disk", "tiny"]
    stock.do("image", "save", "disk", "--file", str(tmp_path / "back.raw"))
    assert (tmp_path / "back.raw").read_bytes() == disk.read_bytes()


def test_discovery_needs_no_token(cloud: Supervisor) -> None:
    for root in ("identity", ""):
        reply = requests.get(f"http://127.0.0.1:{cloud.ports[1]}/{root}", timeout=30)
        assert reply.status_code in (200, 300)
        version = reply.json()["versions"]["values"][0]
        assert version["id"].startswith("v3")
        assert version["links"][0]["href"] == f"http://127.0.0.1:{cloud.ports[1]}/{root}".rstrip("/") + "/v3/"
    assert requests.get(f"http://127.0.0.1:{cloud.ports[2]}/", timeout=30).status_code == 300


def test_the_catalogue_has_every_service(cloud: Supervisor) -> None:
    catalog = cloud.token().json()["token"]["catalog"]
    base = f"http://127.0.0.1:{cloud.ports[0]}"
    assert {entry["type"]: {point["url"] for point in entry["endpoints"]} for entry in catalog} == {
        "identity": {cloud.identity.removesuffix("/v3")},
        "image": {f"http://127.0.0.1:{cloud.ports[2]}"},
        "compute": {f"{base}/compute/v2.1"},
        "placement": {f"{base}/placement"},
        "kilonova": {f"{base}/operator/v1"},
    }
    assert all({point["region_id"] for point in entry["endpoints"]} == {"RegionOne"} for entry in catalog)


def test_the_member_is_a_plain_one(cloud: Supervisor) -> None:
    token = cloud.token("kilonova-demo").json()["token"]
    assert {role["name"] for role in token["roles"]} == {"member", "reader"}
    assert token["project"]["name"] == "demo"
    member = cloud.session("kilonova-demo")
    assert member.get(f"{cloud.identity}/users").status_code == 403
    assert [image["name"] for image in member.get(f"{cloud.image}/images").json()["images"]] == ["tiny"]


def test_a_header_with_underscores_is_no_token(cloud: Supervisor) -> None:
    token = cloud.session().headers["X-Auth-Token"]
    assert requests.get(f"{cloud.identity}/users", headers={"X_Auth_Token": token}, timeout=30).status_code == 401


@pytest.mark.parametrize(("method", "path"), [("POST", "/v2/images"), ("PUT", "/v2/images/one/file")])
def test_glance_does_not_wait_for_a_body_with_a_made_up_token(cloud: Supervisor, method: str, path: str) -> None:
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nX-Auth-Token: made up\r\nContent-Length: 100000\r\n"
    with socket.create_connection(("127.0.0.1", cloud.ports[2]), timeout=10) as connection:
        connection.sendall(f"{head}Content-Type: application/octet-stream\r\n\r\n{{".encode())
        answer = connection.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 401"), answer


def test_no_password_is_in_a_log(cloud: Supervisor) -> None:
    passwords = yaml.safe_load((cloud.folder / "passwords.json").read_text()).values()
    text = "".join(cloud.lines) + "".join(log.read_text() for log in (cloud.folder / "log").glob("*.log"))
    assert not [password for password in passwords if password in text]


def test_eight_clients_make_and_delete_projects_and_users_at_once(cloud: Supervisor) -> None:
    session = cloud.session()
    roles = session.get(f"{cloud.identity}/roles?name=member").json()["roles"]
    statuses: Counter[tuple[str, int]] = Counter()

    def call(own: requests.Session, method: str, path: str, body: object = None) -> Any:
        reply = own.request(method, f"{cloud.identity}/{path}", json=body, timeout=60)
        statuses[method, reply.status_code] += 1
        return reply.json() if reply.content else None

    def work(_: int) -> None:
        own = cloud.session()
        for _ in range(5):
            project = call(own, "POST", "projects", {"project": {"name": uuid.uuid4().hex}})["project"]
            user = call(own, "POST", "users", {"user": {"name": uuid.uuid4().hex, "password": "x" * 12}})["user"]
            call(own, "PUT", f"projects/{project['id']}/users/{user['id']}/roles/{roles[0]['id']}")
            call(own, "DELETE", f"users/{user['id']}")
            call(own, "DELETE", f"projects/{project['id']}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert statuses == {("POST", 201): 80, ("PUT", 204): 40, ("DELETE", 204): 80}


def test_eight_clients_make_and_delete_images_at_once(cloud: Supervisor) -> None:
    def work(number: int) -> set[int]:
        own = cloud.session()
        seen = set()
        for _ in range(4):
            body = {"name": f"image{number}", "disk_format": "raw", "container_format": "bare"}
            made = own.post(f"{cloud.image}/images", json=body)
            url = f"{cloud.image}/images/{made.json()['id']}"
            data = own.put(f"{url}/file", data=b"x" * 5000, headers={"Content-Type": "application/octet-stream"})
            seen |= {made.status_code, data.status_code, own.delete(url).status_code}
        return seen

    with ThreadPoolExecutor(8) as pool:
        assert set().union(*pool.map(work, range(8))) == {201, 204}


def test_a_second_one_on_the_same_folder_is_refused(cloud: Supervisor) -> None:
    second = supervisor_of(cloud.folder).start()
    out, err = second.process.communicate(timeout=60)
    assert second.process.returncode == 1
    assert out == ""
    assert f"is in use by another `kilonova` (process {cloud.process.pid})" in err


def test_a_taken_port_is_named(cloud: Supervisor, own: Supervisor) -> None:
    own.ports[1] = cloud.ports[2]
    _, err = own.start().process.communicate(timeout=60)
    assert own.process.returncode == 1
    assert err == (f"kilonova: port {own.ports[1]} on 127.0.0.1 is in use, and Keystone (--identity-port) needs it\n")


def test_the_last_line_of_glance_says_why_it_ended(cloud: Supervisor, tmp_path: Path) -> None:
    """Another process has taken Glance's port after the supervisor checked it."""
    settings = json.loads((cloud.folder / "glance" / "settings.json").read_text())
    settings |= {"folder": str(tmp_path), "log_file": str(tmp_path / "glance.log")}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    shutil.copy(cloud.folder / "glance" / "glance.db", tmp_path)
    shutil.copy(cloud.folder / "glance" / "glance.version", tmp_path)
    command = [sys.executable, "-m", "kilonova.bundled_services.glance", "--settings", tmp_path / "settings.json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "Address already in use" in (tmp_path / "glance.log").read_text().splitlines()[-1], ended.stderr


def test_a_restart_is_cheap_corrects_the_catalogue_and_seeds_nothing_again(own: Supervisor) -> None:
    own.start().until_ready()
    first = own.processor_s()
    flavors = (own.folder / "stand-in.log").read_text()
    assert flavors.split()[1::3] == ["m1.tiny", "m1.small", "m1.medium", "m1.large", "m1.xlarge"]
    (image,) = own.images()
    assert (image["name"], image["status"], image["visibility"]) == ("tiny", "active", "public")
    assert image["size"] == tiny_image.SIZE_BYTES
    assert own.session().delete(f"{own.image}/images/{image['id']}").status_code == 204
    assert own.signal(signal.SIGINT) == 0
    own.ports = free_ports(3)
    own.start().until_ready()
    again = own.processor_s()
    print(f"\nprocessor time of the first start {first:.1f} s, of the restart {again:.1f} s")
    assert again < first
    assert own.images() == []
    assert (own.folder / "stand-in.log").read_text() == flavors
    urls = {point["url"] for entry in own.token().json()["token"]["catalog"] for point in entry["endpoints"]}
    assert {int(url.split(":")[2].split("/")[0]) for url in urls} == set(own.ports)


def test_a_killed_child_is_started_again_and_ctrl_c_in_the_pause_before_ends_all(own: Supervisor) -> None:
    own.start().until_ready()
    addresses = {
        "glance": f"http://127.0.0.1:{own.ports[2]}/",
        "control": f"http://127.0.0.1:{own.ports[0]}/compute/v2.1",
    }
    for child, mark in (("glance", "bundled_services.glance"), ("control", "stand_in_control")):
        victim = own.descendant(mark)
        os.kill(victim, signal.SIGKILL)
        log = own.folder / "log" / f"{child}.log"
        assert own.next_line("again") == f"{child} was killed by SIGKILL; starting it again in 1 s, log in {log}\n"
        wait_until(lambda url=addresses[child]: _answers(url), f"{child} to answer again", at_most_s=60)
        assert own.descendant(mark) != victim
    assert len(own.images()) == 1
    below = [os.pidfd_open(pid) for pid in own.descendants()]
    os.kill(own.descendant("bundled_services.keystone"), signal.SIGKILL)
    own.next_line("keystone was killed by SIGKILL; starting it again in 1 s")
    began = time.monotonic()
    assert own.signal(signal.SIGINT) == 0
    assert time.monotonic() - began < 10
    Supervisor.require_gone(below)


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).status_code in (200, 300)
    except requests.ConnectionError:
        return False


def test_a_child_that_fails_to_start_is_told_with_its_last_words(own: Supervisor) -> None:
    own.environment = {"STAND_IN_EXIT": "1"}
    _, err = own.start().process.communicate(timeout=30)
    assert own.process.returncode == 1
    assert "control ended with exit status 1; the last lines of" in err
    assert "the stand-in was told to fail" in err


def test_a_kill_leaves_no_child_and_a_first_start_killed_anywhere_is_finished_by_the_next(own: Supervisor) -> None:
    own.start().until_ready()
    whole = own.seconds
    assert len(own.descendants()) >= 4  # Keystone, Glance, the fake control process and its grandchild.
    own.signal(signal.SIGKILL)  # signal() asserts that all descendants end.
    for step in sampled((1, 2, 3, 4, 5, 6), sample=(1, 3, 5)):
        own.folder = own.folder.with_name(f"killed{step}")
        own.start()
        time.sleep(whole * step / 7)
        own.signal(signal.SIGKILL)
        own.lines.clear()
        own.start().until_ready()
        assert [(image["name"], image["status"]) for image in own.images()] == [("tiny", "active")]
        assert own.token("kilonova-demo").status_code == 201
        assert own.signal(signal.SIGTERM) == 0


def test_accounts_that_are_written_anew_can_log_in_at_once(own: Supervisor) -> None:
    own.start().until_ready()
    for _ in range(sampled(3, sample=1)):
        assert own.signal(signal.SIGTERM) == 0
        own.lines.clear()
        (own.folder / "keystone" / "accounts-made").unlink()
        own.start().until_ready()
        assert [image["name"] for image in own.images()] == ["tiny"]
