# SPDX-License-Identifier: Apache-2.0
"""The encrypted password of a server: kept when it is changed, readable for the owner of the key pair alone."""

import base64

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, padding, rsa

from support.control import Control

PASSWORD = "correct horse"
OPENSSH = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH


def import_key(control: Control, name: str, key: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> None:
    public = key.public_key().public_bytes(*OPENSSH).decode()
    assert control.member.post("/os-keypairs", {"keypair": {"name": name, "public_key": public}}).status == 201


def change_password(control: Control, uuid: str) -> None:
    body = {"changePassword": {"adminPass": PASSWORD}}
    assert control.member.post(f"/servers/{uuid}/action", body).status == 202
    control.settle()


def kept(control: Control, uuid: str) -> str:
    answer = control.member.get(f"/servers/{uuid}/os-server-password")
    assert (answer.status, [*answer.body]) == (200, ["password"])
    return str(answer.body["password"])


def test_the_owner_of_the_key_reads_the_new_password(control: Control) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    import_key(control, "rsa", key)
    uuid = control.boot(key_name="rsa")["id"]
    assert kept(control, uuid) == ""
    change_password(control, uuid)
    assert key.decrypt(base64.b64decode(kept(control, uuid)), padding.PKCS1v15()).decode() == PASSWORD
    assert not [row for rows in control.everything().values() for row in rows if PASSWORD in row]
    path = f"/servers/{uuid}/os-server-password"
    assert (control.stranger.get(path).status, control.stranger.delete(path).status) == (404, 404)
    for _ in range(2):
        assert control.member.delete(path).status == 204
        assert kept(control, uuid) == ""


def test_nothing_is_kept_that_nobody_could_read(control: Control) -> None:
    import_key(control, "ed25519", ed25519.Ed25519PrivateKey.generate())
    import_key(control, "short", rsa.generate_private_key(public_exponent=65537, key_size=1024))
    for name in ("ed25519", None):
        uuid = control.boot(key_name=name)["id"]
        change_password(control, uuid)
        assert kept(control, uuid) == ""
    long = control.boot(key_name="short")["id"]
    body = {"changePassword": {"adminPass": "x" * 200}}
    assert control.member.post(f"/servers/{long}/action", body).status == 202
    control.settle()
    assert kept(control, long) == ""
