# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import pytest

from kilonova.images.for_hosts import ImagesForHosts
from kilonova.images.tickets import Direction
from kilonova.model.image import Image


class Office:
    def issue(self, host: str, image_id: str, direction: Direction) -> str:
        return f"{direction.value} {image_id} at {host}"


@pytest.mark.parametrize(("folder", "location"), [(None, ""), (Path("/srv/images"), "file:///srv/images/a%252Fb")])
def test_names_with_slashes_stay_one_segment_of_urls_and_paths(folder: Path | None, location: str) -> None:
    office: Any = Office()
    offers = ImagesForHosts(office, "https://control", folder)
    data = offers.to_read("rack/1", Image("a/b", "image", size_bytes=7))
    assert data.url == "https://control/agents/v1/hosts/rack%2F1/images/a%2Fb/file"
    assert data.ticket == f"{Direction.READ.value} a/b at rack/1"
    assert (data.location, data.size_bytes) == (location, 7)


def test_an_upload_needs_a_ticket_of_its_own_and_no_shared_folder() -> None:
    office: Any = Office()
    data = ImagesForHosts(office, "https://control", Path("/srv/images")).to_write("node1", "i")
    assert (data.ticket, data.location) == (f"{Direction.WRITE.value} i at node1", "")
