# SPDX-License-Identifier: Apache-2.0
"""Data classes of the link to the broker: messages to the broker, and deliveries from the broker."""

from collections.abc import Callable

from kilonova.records import dataclass


def always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A serialised message to the broker. ``is_wanted``: called before each sending; False drops the message."""

    exchange: str
    key: str
    body: bytes
    is_wanted: Callable[[], bool] = always


@dataclass(frozen=True, slots=True)
class Delivery:
    """A serialised message from the broker. ``user``: its sender, verified by the broker; "" if the sender set no user.

    ``epoch``: number of the connection; ``tag``: delivery tag on that connection.
    """

    body: bytes
    exchange: str
    user: str
    epoch: int
    tag: int
