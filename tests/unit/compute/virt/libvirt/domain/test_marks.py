# SPDX-License-Identifier: Apache-2.0
"""The mark of a guest comes back from a domain as it was written; nothing else counts as one."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.compute.virt.libvirt.domain.marks import NAMESPACE, GuestMark, Origin, read_mark, with_mark
from kilonova.compute.virt.libvirt.domain.network_cards import CardStyle
from kilonova.model.instance import GuestSpec

AT = datetime(2026, 1, 2, 3, 4, 5, 678901)  # noqa: DTZ001
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"))


CARDS = st.builds(CardStyle, WORDS.filter(bool), st.none() | st.integers(min_value=1), st.booleans())


@given(WORDS, WORDS, st.sampled_from(Origin), st.none() | WORDS.filter(bool), CARDS)
def test_there_and_back(name: str, project: str, origin: Origin, rescue: str | None, cards: CardStyle) -> None:
    mark = GuestMark("u", AT, origin, rescue, name=name, project=project, cards=cards)
    assert read_mark(mark.xml()) == read_mark(mark.bare_xml()) == mark
    assert read_mark(f"<domain><metadata>{mark.xml()}</metadata></domain>") == mark


@pytest.mark.parametrize(
    "text",
    [
        "<domain/>",
        "<domain><metadata/></domain>",
        "<domain><metadata><guest uuid='u'/></metadata></domain>",
        f"<guest xmlns='{NAMESPACE}' uuid='u' orderedAt='soon' origin='spawned'/>",
        f"<guest xmlns='{NAMESPACE}' uuid='u' orderedAt='2026-01-02T03:04:05' origin='spawned' cardQueues='many'/>",
        f"<guest xmlns='{NAMESPACE}' uuid='u' orderedAt='2026-01-02T03:04:05' origin='found'/>",
    ],
)
def test_what_is_no_mark(text: str) -> None:
    assert read_mark(text) is None


def test_libvirt_gives_it_without_its_namespace() -> None:
    text = "<guest uuid='u' orderedAt='2026-01-02T03:04:05.678901' origin='spawned'/>"
    assert read_mark(text) == GuestMark("u", AT)


def test_a_guest_bears_when_it_was_ordered_and_whose_it_is() -> None:
    guest = GuestSpec(
        uuid="u",
        name="instance-00000001",
        hostname="web",
        vcpus=2,
        memory_mib=64,
        root_gib=1,
        image_ref="i",
        project_id="p",
        ordered_at=AT,
    )
    mark = GuestMark.of(guest, Origin.MOVED)
    assert (mark.uuid, mark.ordered_at, mark.origin) == ("u", AT, Origin.MOVED)
    assert (mark.name, mark.flavor, mark.image, mark.project) == ("web", "2 VCPU, 64 MiB, 1 GiB", "i", "p")


@pytest.mark.parametrize("prefix", ["kilonova", "other"])
def test_the_mark_of_a_domain_is_replaced(prefix: str) -> None:
    old, new = GuestMark("u", AT, Origin.MOVED), GuestMark("u", AT, Origin.SPAWNED, cards=CardStyle("e1000"))
    domain = f"<domain><metadata>{old.xml().replace('kilonova:', prefix + ':').replace(':kilonova=', f':{prefix}=')}"
    marked = with_mark(f"{domain}<keep/></metadata><devices/></domain>", new)
    assert read_mark(marked) == new
    assert "<keep" in marked
    assert "<devices" in marked
