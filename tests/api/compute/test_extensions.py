# SPDX-License-Identifier: Apache-2.0
from api.compute_cloud import Cloud


def test_extensions(cloud: Cloud) -> None:
    for version in ("2.1", "2.104"):
        listed = cloud.member.at(version).get("/extensions").body["extensions"]
        aliases = [each["alias"] for each in listed]
        assert len(aliases) == len(set(aliases)) > 90
        # What clients look for before they offer something.
        assert {"os-simple-tenant-usage", "os-keypairs", "OS-EXT-AZ", "os-block-device-mapping-v2-boot"} <= {*aliases}
        shown = cloud.member.at(version).get("/extensions/os-keypairs").body["extension"]
        assert shown in listed
        assert (shown["name"], shown["links"]) == ("Keypairs", [])
        assert cloud.member.at(version).get("/extensions/os-nothing").status == 404
