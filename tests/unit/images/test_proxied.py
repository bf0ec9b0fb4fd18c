# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.errors import InvalidRequest, NotFound
from kilonova.images.proxied import FixedImageProxy, ImageFilter
from kilonova.images.source import FixedImages
from kilonova.model.image import Image

IMAGES = FixedImages(
    (
        Image("a", "small", min_memory_mib=64, properties={"os": "bsd"}),
        Image("b", "large", min_memory_mib=512),
        Image("c", "small", min_memory_mib=512, properties={"os": "linux"}),
    )
)
PROXY = FixedImageProxy(IMAGES)


def ids(limit: int = 10, marker: str | None = None, **wanted: object) -> list[str]:
    page = PROXY.page(ImageFilter(**wanted), limit=limit, marker=marker, token=None)  # type: ignore[arg-type]
    return [image.id for image in page]


def test_every_part_of_a_filter_has_to_fit() -> None:
    assert ids() == ["a", "b", "c"]
    assert ids(name="small", min_memory_mib="512") == ["c"]
    assert ids(properties={"os": "bsd"}) == ["a"]
    assert ids(status="queued") == []


def test_a_page_begins_after_its_marker_among_the_images_that_fit() -> None:
    assert ids(limit=1) == ["a"]
    assert ids(limit=1, marker="a", name="small") == ["c"]
    assert ids(marker="c") == []
    with pytest.raises(InvalidRequest, match=r"marker \[b\] not found"):
        ids(marker="b", name="small")


def test_fixed_images_cannot_be_changed() -> None:
    with pytest.raises(InvalidRequest, match="cannot be changed"):
        PROXY.remove("a", token=None)
    with pytest.raises(NotFound):
        PROXY.remove("z", token=None)
    with pytest.raises(InvalidRequest, match="cannot be changed"):
        PROXY.set_properties(PROXY.get("a", token=None), {}, token=None)
