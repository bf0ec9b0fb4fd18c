# SPDX-License-Identifier: Apache-2.0
"""MAC addresses of the neighbours of a network device, as the kernel knows them. Source: rtnetlink(7)."""

import socket
import struct
import threading

_GETNEIGH = 30
_REQUEST = 0x01
_NEWNEIGH = 28
_DESTINATION, _LINK_LAYER_ADDRESS = 1, 2
#: nlmsghdr: length, type, flags, sequence number, port. ndmsg: family, padding, device, state, flags, type. rtattr.
_HEADER, _NEIGHBOUR, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BxxxiHBB"), struct.Struct("=HH")
_MOST_BYTES = 8192
_TIMEOUT_S = 1.0
_MAC_LENGTH = 6


class Neighbours:
    """Neighbours of the device with an index, in the network namespace of the thread that creates this object."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._number = 0
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.settimeout(_TIMEOUT_S)
        self._socket.bind((0, 0))

    def close(self) -> None:
        self._socket.close()

    def mac_of(self, address: str) -> str:
        """Return the MAC address of the neighbour with an address, or "" if the kernel does not know it."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            packed = socket.inet_pton(family, address)
            with self._lock:
                answer = self._ask(family, packed)
        except OSError:
            return ""
        return _mac_in(answer)

    def _ask(self, family: int, packed: bytes) -> bytes:
        self._number += 1
        body = _NEIGHBOUR.pack(family, self._device, 0, 0, 0)
        body += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(packed), _DESTINATION) + packed
        self._socket.send(_HEADER.pack(_HEADER.size + len(body), _GETNEIGH, _REQUEST, self._number, 0) + body)
        while True:
            answer = self._socket.recv(_MOST_BYTES)
            if _HEADER.unpack_from(answer)[3] == self._number:  # an earlier answer may have come too late
                return answer


def _mac_in(answer: bytes) -> str:
    """Return the MAC address in a message of the kernel; "" if it contains none."""
    length, kind, _, _, _ = _HEADER.unpack_from(answer)
    if kind != _NEWNEIGH:
        return ""
    at = _HEADER.size + _NEIGHBOUR.size
    while at + _ATTRIBUTE.size <= length:
        size, name = _ATTRIBUTE.unpack_from(answer, at)
        if name == _LINK_LAYER_ADDRESS and size == _ATTRIBUTE.size + _MAC_LENGTH:
            return answer[at + _ATTRIBUTE.size : at + size].hex(":")
        at += max(_ATTRIBUTE.size, (size + 3) & ~3)
    return ""
