# SPDX-License-Identifier: Apache-2.0
"""Device models in image metadata as Placement requirements, with the stock client."""

import json
from pathlib import Path
from typing import ClassVar

import pytest

from e2e.commands import server_create
from support.stock_cloud import StockCloud

pytestmark = pytest.mark.cloud


class TestImageModels:
    """Mixed cloud and images that only some of its hosts support: image metadata as Placement requirements."""

    scenario: ClassVar = "image-models"

    def test_images_go_where_their_device_models_are_at_the_first_attempt(
        self, stock: StockCloud, tmp_path: Path
    ) -> None:
        disk = tmp_path / "disk.raw"
        disk.write_bytes(b"\0" * 4096)
        upload = ("image", "create", "--public", "--disk-format", "raw", "--file", str(disk))
        stock.together(
            (*upload, "--property", "hw_vif_model=e1000", "old-card"),
            (*upload, "--property", "hw_vif_model=e1000", "--property", "hw_video_model=virtio", "no-such-host"),
        )
        stock.do("server", "create", "--flavor", "m1.tiny", "--image", "old-card", "--min", "4", "--max", "4", "card")
        stock.do(*server_create("stranded", image="no-such-host"))
        places = stock.places("card")
        assert len(places) == 4
        assert set(places.values()) == {"old1", "old2"}
        for name in ("card-1", "card-2"):
            (decision,) = json.loads(stock.kilonova("explain", name, "--json").stdout)["decisions"]
            assert decision["chosen"] == places[name]
        fault = stock.show("server", "show", "stranded")["fault"]
        assert fault["message"] == "No valid host was found. transform_image_metadata: 7 of 7 hosts"

        ids = {each["name"]: each["uuid"] for each in stock.show("resource", "provider", "list")}
        old, new = (
            {each["name"] for each in traits}
            for traits in stock.shown_together(
                ("resource", "provider", "trait", "list", ids["old1"]),
                ("resource", "provider", "trait", "list", ids["new1"]),
            )
        )
        assert {"COMPUTE_NODE", "OWNER_NOVA", "HW_ARCH_X86_64", "COMPUTE_NET_VIF_MODEL_VIRTIO"} <= old & new
        assert "COMPUTE_NET_VIF_MODEL_E1000" in old - new
        assert "COMPUTE_NET_VIF_MODEL_IGB" in new - old
