# SPDX-License-Identifier: Apache-2.0
import os
from uuid import RFC_4122, UUID

from kilonova.identifiers import new_uuid


def test_ids_are_random_uuids_in_their_usual_form() -> None:
    made = [new_uuid() for _ in range(2_000)]
    assert len(set(made)) == len(made)
    for text in made:
        assert str(UUID(text)) == text
        assert (UUID(text).version, UUID(text).variant) == (4, RFC_4122)
    assert {text[19] for text in made} == set("89ab")
    for place in {*range(36)} - {8, 13, 14, 18, 19, 23}:
        assert {text[place] for text in made} == set("0123456789abcdef")


def test_a_child_process_makes_others() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, new_uuid().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 36).decode() != new_uuid()
