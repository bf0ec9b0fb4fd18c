# SPDX-License-Identifier: Apache-2.0
"""Acknowledgements of deliveries."""

from kilonova.messaging.rabbit.acknowledgements import Acknowledgements


class Channel:
    """Records acknowledgements: the delivery tag, and whether it covers all earlier tags."""

    def __init__(self) -> None:
        self.acknowledged: list[tuple[int, bool]] = []

    def basic_ack(self, tag: int, *, multiple: bool = False) -> None:
        self.acknowledged.append((tag, multiple))


def test_deliveries_are_acknowledged_together_up_to_the_first_that_is_open() -> None:
    channel, open_ones = Channel(), Acknowledgements()
    for tag in range(1, 9):
        open_ones.delivered(tag)
    open_ones.acknowledge(channel, [3, 1, 2, 6])
    assert channel.acknowledged == [(3, True), (6, False)]
    open_ones.acknowledge(channel, [6, 2, 99])
    open_ones.acknowledge(channel, [4, 5])
    assert channel.acknowledged == [(3, True), (6, False), (5, True)]
    open_ones.acknowledge(channel, [8, 7])
    assert channel.acknowledged[-1] == (8, True)
