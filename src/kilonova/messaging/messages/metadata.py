# SPDX-License-Identifier: Apache-2.0
"""Questions of an agent about the metadata of a guest on its host, and their answers.

The guest is named by what the agent sees of it: its network, and the source address of its request. A control process
answers only for servers that the database places on the agent's host.
"""

from collections.abc import Mapping
from dataclasses import field

from kilonova.model.posted_password import PostResult
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class AskMetadata:
    """Question for all metadata of the guest that has an address in a network. Answered with :class:`GuestMetadata`.

    ``mac``: MAC address of the request's sender; "" if it is unknown.
    """

    host: str
    network_id: str
    address: str
    mac: str = ""


@dataclass(frozen=True, slots=True)
class GuestMetadata:
    """Answer to :class:`AskMetadata`. ``found``: False if the host has no such guest.

    ``paths``: path of a file → index of its content in ``contents``, because many files have the same content.
    """

    found: bool
    contents: tuple[bytes, ...] = ()
    paths: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> "GuestMetadata":
        """Return the answer with the contents of ``files``: path → content."""
        indices: dict[bytes, int] = {}
        paths = {path: indices.setdefault(content, len(indices)) for path, content in files.items()}
        return cls(True, tuple(indices), paths)

    def files(self) -> dict[str, bytes]:
        """Return path → content. Raises: IndexError for an answer that contradicts itself."""
        return {path: self.contents[index] for path, index in self.paths.items()}


@dataclass(frozen=True, slots=True)
class PostPassword:
    """A password that a guest has generated and encrypted. Answered with :class:`PasswordPosted`.

    The guest is named as in :class:`AskMetadata`.
    """

    host: str
    network_id: str
    address: str
    mac: str = ""
    password: str = ""


@dataclass(frozen=True, slots=True)
class PasswordPosted:
    """Answer to :class:`PostPassword`."""

    result: PostResult


MetadataQuestion = AskMetadata | PostPassword
MetadataAnswer = GuestMetadata | PasswordPosted
