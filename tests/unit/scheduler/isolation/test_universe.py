# SPDX-License-Identifier: Apache-2.0
"""The kinds of servers that isolation rules tell apart."""

from tests.unit.scheduler.isolation.audited_cloud import NOTHING, SMALL, TAGGED, Cloud, pool
from tests.unit.scheduler.small_cloud import flavor

from kilonova.model.image import Image
from kilonova.scheduler.isolation.universe import ANY_OTHER_PROJECT, Group, OfferedFlavor


def test_an_untagged_upload_is_always_tried() -> None:
    report = Cloud([pool(1, "a", "flavor=small")], images=()).audit()
    assert report.pools[0].may_enter == (Group(("small",), (NOTHING,), (ANY_OTHER_PROJECT,)),)


def test_projects_that_rules_name_are_told_apart_and_private_flavors_stay_private() -> None:
    offered = [
        OfferedFlavor(SMALL),
        OfferedFlavor(flavor(name="own", flavor_id="2"), frozenset({"p", "x"})),
        OfferedFlavor(flavor(name="theirs", flavor_id="3"), frozenset({"q"})),
    ]
    cloud = Cloud([pool(1, "c", "project=p"), pool(2, "d", "project=q")], offered=offered, images=())
    by_rule = {each.rule: each for each in cloud.audit().pools}
    assert by_rule["project=p"].may_enter == (Group(("own", "small"), (NOTHING,), ("p",)),)
    assert by_rule["project=q"].may_enter == (Group(("small", "theirs"), (NOTHING,), ("q",)),)
    assert cloud.audit().projects == (ANY_OTHER_PROJECT, "p", "q")


def test_what_is_alike_for_every_rule_is_tried_once() -> None:
    offered = [OfferedFlavor(flavor({"hw:x": str(n)}, name=f"f{n}", flavor_id=str(n))) for n in range(50)]
    images = [Image(str(n), f"i{n}", properties={"os": str(n)}) for n in range(300)]
    report = Cloud([pool(1, "d", "image.trove")], offered=offered, images=[*images, TAGGED]).audit()
    assert (report.flavors, report.images, report.combinations) == (50, 301, 2)


def test_images_of_one_name_are_told_apart() -> None:
    images = [Image("1", "same", properties={"trove": ""}), Image("2", "same")]
    report = Cloud([pool(1, "d", "image.trove")], images=images).audit()
    assert report.pools[0].may_enter[0].images == ("same (1)",)
