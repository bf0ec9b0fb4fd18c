# SPDX-License-Identifier: Apache-2.0
"""Kilonova's mark in the metadata of a domain: the instance, and the time of the order that created the guest.

Domains without a mark are never changed.
"""

from datetime import UTC, datetime
from enum import StrEnum
from xml.etree import ElementTree as ET

from kilonova.compute.virt.libvirt.domain.network_cards import CardStyle, card_style
from kilonova.model.image_properties import read_property
from kilonova.model.instance import GuestSpec
from kilonova.records import dataclass

#: XML namespace of the mark in a domain's metadata, and its prefix there.
NAMESPACE, PREFIX = "urn:kilonova:guest:1", "kilonova"
_TAG = f"{{{NAMESPACE}}}guest"
_PLAIN_CARDS = CardStyle()


class Origin(StrEnum):
    """Origin of a guest on its host."""

    SPAWNED = "spawned"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class GuestMark:
    """The mark of a guest.

    ``ordered_at``: time of the order that created the guest, in UTC without a zone.
    ``rescue_image``: the rescue image, or None if the guest is not rescued.
    ``administrator``: the account in the guest whose password can be set.
    ``must_be_quiet``: whether the guest agent must freeze the file systems of the guest while its disk is copied.
    ``cards``: kind of the network cards that are attached to the guest later.
    The other fields are information for operators.
    """

    uuid: str
    ordered_at: datetime
    origin: Origin = Origin.SPAWNED
    rescue_image: str | None = None
    name: str = ""
    flavor: str = ""
    image: str = ""
    project: str = ""
    user: str = ""
    administrator: str = "root"
    must_be_quiet: bool = False
    cards: CardStyle = _PLAIN_CARDS

    @classmethod
    def of(cls, guest: GuestSpec, origin: Origin) -> "GuestMark":
        """Return the mark of a new guest. Raises: UnsupportedGuest if flavor and image contradict each other."""
        return cls(
            guest.uuid,
            guest.ordered_at or datetime.now(UTC).replace(tzinfo=None),  # older control processes send no ordered_at
            origin,
            name=guest.config_drive.display_name if guest.config_drive else guest.hostname,
            flavor=f"{guest.vcpus} VCPU, {guest.memory_mib} MiB, {guest.root_gib} GiB",
            image=guest.image_ref or "",
            project=guest.project_id,
            user=guest.user_id,
            administrator=_administrator(guest),
            must_be_quiet=_is_true(read_property(guest.image_properties, "os_require_quiesce")),
            cards=card_style(guest),
        )

    def xml(self) -> str:
        """Return the XML element of the mark, as in a domain's metadata."""
        ET.register_namespace(PREFIX, NAMESPACE)
        return ET.tostring(ET.Element(_TAG, self._attributes()), "unicode")

    def bare_xml(self) -> str:
        """Return the XML element without its namespace; libvirt expects the namespace as a separate argument."""
        return ET.tostring(ET.Element("guest", self._attributes()), "unicode")

    def _attributes(self) -> dict[str, str]:
        values = {
            "uuid": self.uuid,
            "orderedAt": self.ordered_at.isoformat(),
            "origin": self.origin.value,
            "rescueImage": self.rescue_image or "",
            "name": self.name,
            "flavor": self.flavor,
            "image": self.image,
            "project": self.project,
            "user": self.user,
            "administrator": self.administrator,
            "mustBeQuiet": "yes" if self.must_be_quiet else "",
            "cardModel": "" if self.cards.model == _PLAIN_CARDS.model else self.cards.model,
            "cardQueues": str(self.cards.queues or ""),
            "cardPacked": "yes" if self.cards.packed else "",
        }
        return {name: value for name, value in values.items() if value}


def read_mark(text: str) -> GuestMark | None:
    """Parse a mark, from its own XML element or from the XML of a domain; return None if there is no valid mark."""
    root = ET.fromstring(text)  # noqa: S314 - the XML is from libvirt, which has parsed it
    found = root if root.tag in {_TAG, "guest"} else root.find(f"metadata/{_TAG}")
    if found is None:
        return None
    try:
        ordered_at, origin = datetime.fromisoformat(found.get("orderedAt", "")), Origin(found.get("origin", ""))
        queues = int(found.get("cardQueues", "0")) or None
    except ValueError:
        return None
    return GuestMark(
        uuid=found.get("uuid", ""),
        ordered_at=ordered_at,
        origin=origin,
        rescue_image=found.get("rescueImage"),
        name=found.get("name", ""),
        flavor=found.get("flavor", ""),
        image=found.get("image", ""),
        project=found.get("project", ""),
        user=found.get("user", ""),
        administrator=found.get("administrator", "root"),
        must_be_quiet=found.get("mustBeQuiet") == "yes",
        cards=CardStyle(found.get("cardModel", _PLAIN_CARDS.model), queues, found.get("cardPacked") == "yes"),
    )


def with_mark(domain: str, mark: GuestMark) -> str:
    """Return the XML of a domain with its mark replaced by ``mark``."""
    root = ET.fromstring(domain)  # noqa: S314 - the XML is from this process, or from libvirt
    metadata = root.find("metadata")
    if metadata is not None:
        for old in metadata.findall(_TAG):
            metadata.remove(old)
        metadata.append(ET.fromstring(mark.xml()))  # noqa: S314 - the XML is from this process
    return ET.tostring(root, encoding="unicode")


def _administrator(guest: GuestSpec) -> str:
    named = read_property(guest.image_properties, "os_admin_user")
    is_windows = (read_property(guest.image_properties, "os_type") or "").lower() == "windows"
    return named or ("Administrator" if is_windows else "root")


def _is_true(value: str | None) -> bool:
    return (value or "").lower() in {"true", "yes", "on", "1"}
