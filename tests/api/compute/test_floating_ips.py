# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from api.compute_cloud import Cloud
from api.compute_proxies import UNKNOWN, check_proxies
from kilonova.api.compute import floating_ips
from support.fake_neutron import FakeNeutron

_PATH = "/os-floating-ips"


@pytest.fixture
def public(neutron: FakeNeutron) -> str:
    """The pool "public" and a network of alice's project."""
    neutron.make_network("own", "wonder")
    return neutron.make_external("public")


def allocate(cloud: Cloud, pool: str = "public") -> dict[str, Any]:
    answer = cloud.member.post(_PATH, {"pool": pool})
    assert answer.status == 200, answer.body
    made: dict[str, Any] = answer.body["floating_ip"]
    return made


def associate(neutron: FakeNeutron, floating_ip: str, device: str) -> str:
    """Associate a floating IP with a new port of a device; return the fixed address."""
    (network,) = neutron.store.where("networks", name="own")
    port = neutron.make_port(network["id"], "wonder", device_id=device, device_owner="compute:nova")
    neutron.update("floatingips", floating_ip, {"port_id": port})
    return str(neutron.port(port)["fixed_ips"][0]["ip_address"])


def test_without_a_network_service_there_are_no_floating_ips(cloud: Cloud) -> None:
    check_proxies(cloud, floating_ips.ROUTES)
    assert cloud.member.post(_PATH, {"pool": 1}).status == 400


@pytest.mark.usefixtures("public")
def test_a_floating_ip_from_allocation_to_release(networked: Cloud, neutron: FakeNeutron) -> None:
    made = allocate(networked)
    assert made == {"id": made["id"], "ip": made["ip"], "pool": "public", "fixed_ip": None, "instance_id": None}
    assert made["ip"].startswith("172.24.4.")

    server = networked.add_server(None)
    fixed = associate(neutron, made["id"], server)
    shown = networked.member.get(f"{_PATH}/{made['id']}").body["floating_ip"]
    assert shown == made | {"fixed_ip": fixed, "instance_id": server}
    assert networked.member.get(_PATH).body == {"floating_ips": [shown]}

    assert networked.member.delete(f"{_PATH}/{made['id']}").status == 202
    assert networked.member.get(_PATH).body == {"floating_ips": []}
    assert neutron.store["floatingips"] == {}


def test_a_pool_is_a_name_or_an_id_and_by_default_the_configured_one(
    networked: Cloud, neutron: FakeNeutron, public: str
) -> None:
    assert allocate(networked, public)["pool"] == "public"
    for body in (None, {}, {"pool": None}, {"pool": ""}, {"pool": "nova"}):
        answer = networked.member.post(_PATH, body)
        assert (answer.status, answer.fault[1]) == (404, "Floating IP pool not found.")
    neutron.make_external("nova", "172.25.0.0/24")
    assert networked.member.post(_PATH).body["floating_ip"]["pool"] == "nova"
    neutron.make_external("nova", "172.26.0.0/24")
    answer = networked.member.post(_PATH)
    assert (answer.status, answer.fault[1]) == (400, "Multiple floating IP pools matches found for name 'nova'")


@pytest.mark.usefixtures("public")
def test_quota_and_exhausted_pools(networked: Cloud, neutron: FakeNeutron) -> None:
    neutron.make_external("nova", "172.25.0.0/30")
    assert networked.member.post(_PATH).status == 200
    answer = networked.member.post(_PATH)
    assert (answer.status, answer.fault[1]) == (404, "No more floating IPs available.")
    answer = networked.member.post(_PATH, {"pool": "nova"})
    assert (answer.status, answer.fault[1]) == (404, "No more floating IPs in pool nova.")
    neutron.set_quota("wonder", floatingip=1)
    answer = networked.member.post(_PATH)
    assert (answer.status, answer.fault[1]) == (403, "IP allocation over quota.")
    answer = networked.member.post(_PATH, {"pool": "public"})
    assert (answer.status, answer.fault[1]) == (403, "IP allocation over quota in pool public.")


@pytest.mark.usefixtures("public")
def test_floating_ips_of_other_projects_do_not_exist(networked: Cloud) -> None:
    made = allocate(networked)
    other = networked.as_user("mallory", "elsewhere")
    assert other.get(_PATH).body == {"floating_ips": []}
    assert networked.admin.get(_PATH).body == {"floating_ips": []}, "an administrator lists his own project"
    assert networked.admin.get(f"{_PATH}/{made['id']}").body == {"floating_ip": made}
    for client, floating_ip in ((other, made["id"]), (networked.member, UNKNOWN)):
        for method in ("GET", "DELETE"):
            answer = client.send(method, f"{_PATH}/{floating_ip}")
            assert (answer.status, answer.fault[1]) == (404, f"Floating IP not found for ID {floating_ip}")


@pytest.mark.usefixtures("public")
def test_the_floating_ip_of_another_device_is_not_released(networked: Cloud, neutron: FakeNeutron) -> None:
    for device in ("lb-1", networked.add_server(None, project_id="elsewhere")):
        made = allocate(networked)
        associate(neutron, made["id"], device)
        answer = networked.member.delete(f"{_PATH}/{made['id']}")
        assert (answer.status, answer.fault[1]) == (404, f"Instance {device} could not be found.")
        assert made["id"] in neutron.store["floatingips"]


@pytest.mark.usefixtures("public")
def test_readers_neither_allocate_nor_release(networked: Cloud) -> None:
    made = allocate(networked)
    reader = networked.as_user("alice", "wonder", "reader")
    assert reader.get(f"{_PATH}/{made['id']}").status == 200
    assert reader.post(_PATH).status == 403
    assert reader.delete(f"{_PATH}/{made['id']}").status == 403
    assert networked.member.at("2.36").get(_PATH).status == 404
