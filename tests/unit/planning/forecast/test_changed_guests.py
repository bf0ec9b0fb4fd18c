# SPDX-License-Identifier: Apache-2.0
import numpy as np

from kilonova.planning.forecast.changed_guests import CountedGuests
from kilonova.scheduler.guests import GuestKind, TableGuests

WEB, OLD = GuestKind("1", (("os", "web"),)), GuestKind("2")


def test_guests_of_the_beginning_count_on_their_hosts_only() -> None:
    counted = CountedGuests(TableGuests.of([[WEB, OLD], [OLD]]), 4)
    counted.change(3, WEB, 2)
    counted.change(0, WEB, -1)
    grown = counted.of(4)
    assert grown.with_image_property("os", "web").tolist() == [0, 0, 0, 2]
    assert grown.of_other_flavors("1").tolist() == [1, 1, 0, 0]
    counted.change(1, WEB, 1)
    assert grown.with_image_property("os", "web").tolist() == [0, 1, 0, 2], "the counts follow the changes"
    assert counted.of(2).take(np.array([1])).of_other_flavors("2").tolist() == [1]
