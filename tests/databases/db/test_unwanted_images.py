# SPDX-License-Identifier: Apache-2.0
from kilonova.db import shelved, unwanted_images
from kilonova.db.database import Database
from kilonova.model.instance import VmState
from support.stored_servers import store_server


def oldest(database: Database, limit: int = 10) -> tuple[str, ...]:
    with database.read() as connection:
        return unwanted_images.oldest(connection, limit)


def test_images_are_marked_once_and_the_oldest_come_first(database: Database) -> None:
    for images in (["second", "first"], ["later", "first"]):
        database.write(lambda tx, images=images: unwanted_images.note(tx, images))  # type: ignore[misc]
    assert oldest(database) == ("first", "second", "later")
    assert oldest(database, 1) == ("first",)
    database.write(lambda tx: unwanted_images.forget(tx, ["first", "unknown"]))
    assert oldest(database) == ("second", "later")


def test_the_image_of_a_shelved_server_is_marked_if_it_has_one(database: Database) -> None:
    with_image = store_server(database, VmState.SHELVED, shelved_image="image of the server")
    for server in (with_image, store_server(database)):
        database.write(lambda tx, uuid=server.uuid: shelved.forget_image(tx, uuid))  # type: ignore[misc]
    assert oldest(database) == ("image of the server",)
