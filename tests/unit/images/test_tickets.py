# SPDX-License-Identifier: Apache-2.0
import base64
import json
from dataclasses import dataclass, field

import pytest

from kilonova.images.tickets import Direction, InvalidTicketError, Ticket, TicketKey, TicketOffice

LIFETIME_S = 600.0


@dataclass
class Place:
    """A database with keys and a clock, and processes that issue and check tickets."""

    now: float = 1_000_000.0
    keys: list[TicketKey] = field(default_factory=list)
    loads: int = 0

    def __post_init__(self) -> None:
        self.new_key()

    def new_key(self) -> None:
        number = len(self.keys) + 1
        self.keys.append(TicketKey(number, bytes([number]) * 32, self.now))

    def load(self) -> tuple[TicketKey, ...]:
        self.loads += 1
        return tuple(self.keys)

    def office(self) -> TicketOffice:
        return TicketOffice(self.load, lambda: self.now, LIFETIME_S, clock=lambda: self.now)


def refused(office: TicketOffice, text: str) -> bool:
    try:
        office.read(text)
    except InvalidTicketError:
        return True
    return False


def test_a_ticket_says_in_any_process_what_it_was_made_for() -> None:
    place = Place()
    text = place.office().issue("hôst-1", "image 7", Direction.WRITE)
    assert place.office().read(text) == Ticket("hôst-1", "image 7", Direction.WRITE, place.now + LIFETIME_S)


def test_a_ticket_expires_by_the_clock_of_the_database() -> None:
    place = Place()
    office = place.office()
    text = office.issue("h", "i", Direction.READ)
    place.now += LIFETIME_S - 1
    assert office.read(text).host == "h"
    place.now += 1
    assert refused(office, text)


def test_a_forged_ticket_is_refused_whatever_was_changed() -> None:
    place = Place()
    office = place.office()
    text = office.issue("host", "image", Direction.READ)
    number, payload, signature = text.split(".")
    said = json.loads(base64.urlsafe_b64decode(payload + "=="))
    for index, other in ((0, "other"), (1, "other"), (2, "write"), (3, said[3] + 1)):
        changed = [*said[:index], other, *said[index + 1 :]]
        forged = base64.urlsafe_b64encode(json.dumps(changed, separators=(",", ":")).encode()).rstrip(b"=").decode()
        assert refused(office, f"{number}.{forged}.{signature}")
    for position in range(len(text)):
        other = "A" if text[position] != "A" else "B"
        assert refused(office, text[:position] + other + text[position + 1 :]), position


@pytest.mark.parametrize(
    "text", ["", ".", "..", "1..", "1.e30.", "x" * 100_000, "1.é.x", "1." + "A" * 5000 + ".x", "0.W10.W10", "-1.W10.x"]
)
def test_nonsense_is_no_ticket(text: str) -> None:
    assert refused(Place().office(), text)


def test_what_another_cloud_signed_is_refused() -> None:
    ours, theirs = Place(), Place()
    theirs.keys = [TicketKey(1, b"other" * 7, theirs.now)]
    assert refused(ours.office(), theirs.office().issue("h", "i", Direction.READ))


def test_an_old_key_is_good_until_its_tickets_have_expired() -> None:
    place = Place()
    slow, quick = place.office(), place.office()
    before = slow.issue("h", "i", Direction.READ)
    place.now += 10
    place.new_key()
    late = slow.issue("h", "i", Direction.READ)  # it does not know of the new key yet
    place.now += 1
    new = quick.issue("h", "i", Direction.READ)
    assert new.startswith("2.")
    assert late.startswith("1.")
    for text in (before, late, new):
        assert slow.read(text).host == quick.read(text).host == "h"
    place.now += 2 * LIFETIME_S
    stolen = TicketOffice(lambda: (place.keys[0],), lambda: place.now, LIFETIME_S).issue("h", "i", Direction.READ)
    assert refused(quick, stolen)


def test_a_key_that_was_dropped_is_void_once_it_is_noticed() -> None:
    place = Place()
    office = place.office()
    text = office.issue("h", "i", Direction.READ)
    place.new_key()
    del place.keys[0]
    place.now += 60
    assert refused(office, text)


def test_made_up_key_numbers_do_not_make_us_ask_the_database_each_time() -> None:
    place = Place()
    office = place.office()
    for number in range(100):
        assert refused(office, f"{number + 2}.W10.W10")
    assert place.loads == 1
    place.now += 1.5
    assert refused(office, "7.W10.W10")
    assert place.loads == 2


def test_nothing_that_shows_a_key_or_a_ticket_shows_its_secret() -> None:
    key = TicketKey(1, b"secret" * 6, 0.0)
    assert "secret" not in repr(key)
