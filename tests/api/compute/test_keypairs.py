# SPDX-License-Identifier: Apache-2.0
import base64
import hashlib
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import pkcs12

from api.compute_cloud import Cloud
from kilonova.api.compute import key_material
from support.api_client import Answer, Client

KEY = (
    ed25519.Ed25519PrivateKey.from_private_bytes(b"k" * 32)
    .public_key()
    .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    .decode()
)
BLOB = base64.b64decode(KEY.split()[1])
DIGEST = hashlib.md5(BLOB, usedforsecurity=False).hexdigest()
FINGERPRINT = ":".join(DIGEST[at : at + 2] for at in range(0, 32, 2))


def create(client: Client, name: str = "key", **more: Any) -> Answer:
    return client.post("/os-keypairs", {"keypair": {"name": name, **more}})


def bring(client: Client, name: str = "key", **more: Any) -> Answer:
    return create(client, name, public_key=KEY, **more)


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [each["keypair"]["name"] for each in answer.body["keypairs"]]


def test_import(cloud: Cloud) -> None:
    made = bring(cloud.member)
    assert made.status == 200
    assert made.body == {"keypair": {"name": "key", "public_key": KEY, "fingerprint": FINGERPRINT, "user_id": "alice"}}
    newer = bring(cloud.member.at("2.2"), "other")
    assert newer.status == 201
    assert newer.body["keypair"]["type"] == "ssh"


def test_a_comment_does_not_change_the_fingerprint(cloud: Cloud) -> None:
    made = create(cloud.member, public_key=f"{KEY} alice@wonder\n").body["keypair"]
    assert made["fingerprint"] == FINGERPRINT
    assert made["public_key"] == f"{KEY} alice@wonder\n"


def test_generated_pairs_match_and_only_the_public_half_stays(cloud: Cloud) -> None:
    made = create(cloud.member).body["keypair"]
    private = serialization.load_pem_private_key(made["private_key"].encode(), None)
    public = private.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert made["public_key"].startswith(public.decode())
    assert made["public_key"].startswith("ssh-rsa ")
    assert "private_key" not in cloud.member.get("/os-keypairs/key").body["keypair"]
    assert "PRIVATE" not in str(cloud.everything())


def test_generated_certificate(cloud: Cloud) -> None:
    made = create(cloud.member.at("2.2"), type="x509").body["keypair"]
    assert made["type"] == "x509"
    assert len(made["fingerprint"]) == 59
    pair = pkcs12.load_pkcs12(base64.b64decode(made["private_key"]), None)
    assert pair.cert is not None
    assert pair.cert.certificate.public_bytes(serialization.Encoding.PEM).decode() == made["public_key"]
    again = create(cloud.member.at("2.2"), "copy", type="x509", public_key=made["public_key"])
    assert again.body["keypair"]["fingerprint"] == made["fingerprint"]


def test_a_long_user_id_fits_into_its_certificate() -> None:
    assert "BEGIN CERTIFICATE" in key_material.make_x509("u" * 255).public


def test_show(cloud: Cloud) -> None:
    bring(cloud.member)
    shown = cloud.member.get("/os-keypairs/key").body["keypair"]
    assert shown.pop("created_at").startswith("20")
    assert shown == {
        "id": 1,
        "name": "key",
        "public_key": KEY,
        "fingerprint": FINGERPRINT,
        "user_id": "alice",
        "updated_at": None,
        "deleted": False,
        "deleted_at": None,
    }
    assert cloud.member.at("2.2").get("/os-keypairs/key").body["keypair"]["type"] == "ssh"
    assert cloud.member.get("/os-keypairs/nothing").status == 404


def test_list(cloud: Cloud) -> None:
    bring(cloud.member)
    short = {"name": "key", "public_key": KEY, "fingerprint": FINGERPRINT}
    assert cloud.member.get("/os-keypairs").body == {"keypairs": [{"keypair": short}]}
    typed = cloud.member.at("2.2").get("/os-keypairs").body
    assert typed == {"keypairs": [{"keypair": {**short, "type": "ssh"}}]}
    assert names(cloud.admin.get("/os-keypairs")) == []


def test_pages_by_name_from_2_35(cloud: Cloud) -> None:
    for name in "gfedcba":
        bring(cloud.member, name)
    assert names(cloud.member.at("2.34").get("/os-keypairs?limit=2")) == list("abcdefg")
    client = cloud.member.at("2.35")
    first = client.get("/os-keypairs?limit=2")
    assert names(first) == ["a", "b"]
    href = first.body["keypairs_links"][0]["href"]
    assert href == "http://cloud/compute/v2.1/os-keypairs?limit=2&marker=b"
    last = client.get("/os-keypairs?marker=e")
    assert names(last) == ["f", "g"]
    assert "keypairs_links" not in last.body
    for query in ("marker=z", "limit=-1", "limit=x"):
        assert client.get(f"/os-keypairs?{query}").status == 400


def test_delete(cloud: Cloud) -> None:
    bring(cloud.member, "a")
    bring(cloud.member, "b")
    assert cloud.member.delete("/os-keypairs/a").status == 202
    assert cloud.member.at("2.2").delete("/os-keypairs/b").status == 204
    assert cloud.member.delete("/os-keypairs/a").status == 404


def test_names_are_taken_once_a_user(cloud: Cloud) -> None:
    bring(cloud.member)
    again = bring(cloud.member)
    assert (again.status, again.fault) == (409, ("conflictingRequest", "Key pair 'key' already exists."))
    assert bring(cloud.as_user("bob", "wonder")).status == 200


def test_administrators_reach_the_keys_of_others_from_2_10(cloud: Cloud) -> None:
    admin = cloud.admin.at("2.10")
    made = bring(admin, user_id="alice")
    assert made.status == 201
    assert made.body["keypair"]["user_id"] == "alice"
    assert names(cloud.member.get("/os-keypairs")) == ["key"]
    assert names(admin.get("/os-keypairs")) == []
    assert names(admin.get("/os-keypairs?user_id=alice")) == ["key"]
    assert names(cloud.admin.at("2.9").get("/os-keypairs?user_id=alice")) == []
    assert admin.get("/os-keypairs/key?user_id=alice").status == 200
    stranger = cloud.as_user("bob", "wonder").at("2.10")
    assert stranger.get("/os-keypairs?user_id=alice").status == 403
    assert stranger.get("/os-keypairs/key?user_id=alice").status == 403
    assert stranger.delete("/os-keypairs/key?user_id=alice").status == 403
    assert bring(stranger, user_id="alice").status == 403
    assert admin.delete("/os-keypairs/key?user_id=alice").status == 204


def test_unknown_parameters_are_refused_from_2_75(cloud: Cloud) -> None:
    bring(cloud.member)
    for path in ("/os-keypairs?colour=red", "/os-keypairs/key?colour=red"):
        assert cloud.member.at("2.74").get(path).status == 200
        assert cloud.member.at("2.75").get(path).status == 400


def test_from_2_92_keys_are_imported_only_and_names_may_be_addresses(cloud: Cloud) -> None:
    assert create(cloud.member.at("2.91")).status == 201
    assert create(cloud.member.at("2.92"), "b").status == 400
    assert bring(cloud.member.at("2.91"), "alice@wonder.land").status == 400
    assert bring(cloud.member.at("2.92"), "alice@wonder.land").status == 201
    assert cloud.member.get("/os-keypairs/alice@wonder.land").status == 200


@pytest.mark.parametrize(
    ("version", "keypair"),
    [
        ("2.1", {}),
        ("2.1", {"name": ""}),
        ("2.1", {"name": " padded"}),
        ("2.1", {"name": "x" * 256}),
        ("2.1", {"name": "a/b"}),
        ("2.1", {"name": 5}),
        ("2.1", {"name": "a", "type": "ssh"}),
        ("2.2", {"name": "a", "type": "pgp"}),
        ("2.2", {"name": "a", "user_id": "alice"}),
        ("2.10", {"name": "a", "user_id": ""}),
        ("2.1", {"name": "a", "public_key": None}),
        ("2.1", {"name": "a", "public_key": ""}),
        ("2.1", {"name": "a", "public_key": "ssh-rsa"}),
        ("2.1", {"name": "a", "public_key": "ssh-rsa !!!!"}),
        ("2.1", {"name": "a", "public_key": "ssh-rsa AAAA"}),
        ("2.1", {"name": "a", "public_key": "schlüssel"}),
        ("2.1", {"name": "a", "public_key": KEY.replace("ed25519", "rsa")}),
        ("2.2", {"name": "a", "public_key": KEY, "type": "x509"}),
        ("2.2", {"name": "a", "public_key": "-----BEGIN CERTIFICATE-----", "type": "x509"}),
    ],
)
def test_what_is_refused(cloud: Cloud, version: str, keypair: dict[str, Any]) -> None:
    before = cloud.everything()
    answer = cloud.member.at(version).post("/os-keypairs", {"keypair": keypair})
    assert (answer.status, answer.fault[0]) == (400, "badRequest")
    assert cloud.everything() == before


def test_a_hundred_keys_a_user(cloud: Cloud) -> None:
    for number in range(100):
        assert bring(cloud.member, f"k{number}").status == 200
    refused = bring(cloud.member, "one-more")
    assert (refused.status, refused.fault) == (403, ("forbidden", "Quota exceeded, too many key pairs."))
