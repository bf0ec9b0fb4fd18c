# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.conductor.periodic.unwanted_images import ImageRemover
from kilonova.db import unwanted_images
from kilonova.db.database import Database
from kilonova.errors import Unavailable


class Keeper:
    """Removes images until it fails at the image ``away``."""

    def __init__(self) -> None:
        self.removed: list[str] = []
        self.away: str | None = None

    def remove(self, image_id: str) -> None:
        if image_id == self.away:
            raise Unavailable("The image service cannot be reached.")
        self.removed.append(image_id)


def test_an_outage_of_the_image_service_repeats_no_removal(sqlite: Database) -> None:
    for image_id in ("a", "b", "c"):
        sqlite.write(lambda tx, image_id=image_id: unwanted_images.note(tx, image_id))
    keeper: Any = Keeper()
    remover = ImageRemover(sqlite, keeper)
    keeper.away = "b"
    with pytest.raises(Unavailable):
        remover.turn()
    with sqlite.read() as connection:
        assert set(unwanted_images.oldest(connection, 10)) == {"a", "b", "c"} - set(keeper.removed)
    keeper.away = None
    remover.turn()
    remover.turn()
    assert sorted(keeper.removed) == ["a", "b", "c"]
