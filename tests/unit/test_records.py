# SPDX-License-Identifier: Apache-2.0
"""Records behave like Python's dataclasses: each class of these tests is made by both decorators."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import msgspec
import pytest

from kilonova import records

Decorator = Callable[..., Any]
BOTH = pytest.mark.parametrize("dataclass", [records.dataclass, dataclasses.dataclass], ids=["records", "python"])
SLOTS = pytest.mark.parametrize("slots", [True, False])


@records.dataclass(frozen=True, slots=True)
class Pair:
    left: int
    right: tuple[int, ...] = ()


@BOTH
@SLOTS
@pytest.mark.parametrize("frozen", [True, False])
def test_fields_are_set_by_position_name_default_and_factory(
    dataclass: Decorator, *, frozen: bool, slots: bool
) -> None:
    @dataclass(frozen=frozen, slots=slots)
    class Part:
        kind: ClassVar[str] = "part"
        name: str
        size: int = 3
        tags: list[str] = field(default_factory=list)
        later: str = field(default="x", init=False)
        made: list[int] = field(default_factory=list, init=False)

    first, second = Part("a"), Part(name="b", size=4, tags=["t"])
    assert (first.name, first.size, first.tags, first.later, first.made) == ("a", 3, [], "x", [])
    assert (second.name, second.size, second.tags) == ("b", 4, ["t"])
    assert first.tags is not Part("a").tags
    assert Part.kind == "part"
    assert [item.name for item in dataclasses.fields(Part)] == ["name", "size", "tags", "later", "made"]
    assert Part.__match_args__ == ("name", "size", "tags")
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'name'"):
        Part()
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        Part("a", nothing=1)


@BOTH
def test_fields_may_be_passed_by_name_only(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Part:
        size: int = 3
        name: str

    assert (Part(name="a").name, Part(name="a").size) == ("a", 3)
    with pytest.raises(TypeError, match="takes 1 positional argument but 2"):
        Part("a")


@BOTH
@SLOTS
def test_frozen_instances_cannot_be_changed(dataclass: Decorator, *, slots: bool) -> None:
    @dataclass(frozen=True, slots=slots)
    class Part:
        name: str

    part = Part("a")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        part.name = "b"
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'name'"):
        del part.name
    assert part.name == "a"


@BOTH
@SLOTS
def test_instances_are_compared_hashed_and_shown_by_their_fields(dataclass: Decorator, *, slots: bool) -> None:
    @dataclass(frozen=True, slots=slots)
    class Part:
        name: str
        size: int = field(default=0, compare=False)
        secret: str = field(default="", repr=False)

    @dataclass(frozen=True, slots=slots)
    class Other:
        name: str
        size: int = 0
        secret: str = ""

    assert Part("a") == Part("a", 1) != Part("b")
    assert Part("a") != Other("a")
    assert hash(Part("a")) == hash(Part("a", 1)) == hash(("a", ""))
    assert len({Part("a"), Part("a", 1), Part("b")}) == 2
    assert repr(Part("a", secret="s")).endswith("<locals>.Part(name='a', size=0)")


@BOTH
def test_instances_that_can_change_have_no_hash(dataclass: Decorator) -> None:
    @dataclass(slots=True)
    class Part:
        name: str

    part = Part("a")
    part.name = "b"
    assert part == Part("b")
    with pytest.raises(TypeError, match="unhashable type: 'Part'"):
        hash(part)


@BOTH
def test_instances_without_comparison_are_identities(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True, eq=False)
    class Part:
        name: str

    part = Part("a")
    assert part != Part("a")
    assert hash(part) == object.__hash__(part)


@BOTH
def test_methods_of_the_class_are_kept(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Part:
        name: str

        def __post_init__(self) -> None:
            object.__setattr__(self, "name", self.name.upper())

        def __eq__(self, other: object) -> bool:
            return isinstance(other, str) and other == self.name

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "me"

    assert Part("a") == "A"
    assert hash(Part("a")) == 7
    assert repr(Part("a")) == "me"


@BOTH
def test_a_class_that_defines_only_how_it_is_compared_is_hashed_by_its_fields(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Part:  # noqa: PLW1641 - that is the test
        name: str

        def __eq__(self, other: object) -> bool:
            return other == self.name

    assert hash(Part("a")) == hash(("a",))
    assert Part("a") == "a"


@BOTH
def test_a_class_inherits_fields_and_adds_its_own(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Base:
        name: str

    @dataclass(frozen=True, slots=True)
    class Part(Base):
        size: int = 0

    assert Base("a") != Part("a")
    assert (Part("a", 2).name, Part("a", 2).size) == ("a", 2)
    assert Part("a") == Part(name="a", size=0)
    with pytest.raises(FrozenInstanceError):
        Part("a").name = "b"
    with pytest.raises(TypeError, match="cannot inherit frozen dataclass from a non-frozen one"):
        dataclass(frozen=True)(type("Frozen", (dataclass(slots=True)(type("Loose", (), {"__annotations__": {}})),), {}))


@pytest.mark.parametrize("of_base", [records.dataclass, dataclasses.dataclass])
@pytest.mark.parametrize("of_part", [records.dataclass, dataclasses.dataclass])
def test_classes_of_both_decorators_inherit_from_each_other(of_base: Decorator, of_part: Decorator) -> None:
    @of_base(frozen=True, slots=True)
    class Base:
        name: str

    @of_part(frozen=True, slots=True)
    class Part(Base):
        size: int = 0

    assert Part("a", 2) == Part("a", 2) != Part("a", 3)
    assert repr(Part("a")).endswith("Part(name='a', size=0)")


@BOTH
def test_a_subclass_that_is_no_dataclass_uses_the_methods_of_its_base(dataclass: Decorator) -> None:
    @dataclass(frozen=True, slots=True)
    class Base:
        name: str

    class Part(Base):
        pass

    assert Part("a") == Part("a") != Base("a")
    assert Base("a") == Base("a")
    assert Part("a").name == "a"


def test_instances_are_copied_pickled_replaced_and_decoded() -> None:
    pair = Pair(1, (2,))
    assert dataclasses.is_dataclass(pair)
    assert copy.deepcopy(pair) == copy.copy(pair) == pickle.loads(pickle.dumps(pair)) == pair
    assert dataclasses.replace(pair, left=3) == Pair(3, (2,))
    assert dataclasses.asdict(pair) == {"left": 1, "right": (2,)}
    assert msgspec.json.encode(pair) == b'{"left":1,"right":[2]}'
    assert msgspec.json.decode(b'{"left":1,"right":[2]}', type=Pair) == pair
    match pair:
        case Pair(left, right):
            assert (left, right) == (1, (2,))


def test_fields_of_a_copy_are_replaced() -> None:
    @records.dataclass(frozen=True, slots=True)
    class Part:
        name: str
        size: int = field(default=1, kw_only=True)
        tags: list[str] = field(default_factory=list)
        later: int = field(default=5, init=False)

    @records.dataclass(frozen=True, slots=True)
    class Larger(Part):
        more: int = 0

    part = Part("a", size=2, tags=["t"])
    changed = records.replace(part, name="b", tags=["u"])
    assert (changed.name, changed.size, changed.tags, part.name) == ("b", 2, ["u"], "a")
    assert records.replace(part) == part
    assert records.replace(Larger("a", more=3), size=4) == Larger("a", more=3, size=4)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        records.replace(part, nothing=1)  # type: ignore[call-arg]


def test_an_instance_that_contains_itself_is_shown() -> None:
    @records.dataclass
    class Node:
        inner: Any = None

    node = Node()
    node.inner = node
    assert repr(node).endswith("Node(inner=...)")


def test_methods_are_generated_at_their_first_call() -> None:
    @records.dataclass(frozen=True, slots=True)
    class Part:
        name: str

    before = Part.__init__
    Part("a")
    assert Part.__init__ is not before
    assert Part.__init__.__qualname__.endswith("Part.__init__")
    assert Part("b").name == "b"
