# SPDX-License-Identifier: Apache-2.0
"""What a link carries: messages to the broker, and deliveries from it."""

from collections.abc import Callable
from dataclasses import dataclass


def always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """Bytes for the broker. ``is_wanted`` is asked whenever they are about to be sent, for the first time or again."""

    exchange: str
    key: str
    body: bytes
    is_wanted: Callable[[], bool] = always


@dataclass(frozen=True, slots=True)
class Delivery:
    """Bytes from the broker. ``user``: who published them, as the broker has checked; "" when nobody has said.

    ``epoch``, ``tag``: which delivery of which connection this is.
    """

    body: bytes
    exchange: str
    user: str
    epoch: int
    tag: int
