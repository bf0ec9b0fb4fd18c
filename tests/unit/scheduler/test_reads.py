# SPDX-License-Identifier: Apache-2.0
from kilonova.scheduler.reads import ALL_KEYS, NO_KEYS, Elsewhere, Keys, Reads, is_unscoped, names, reads_of

IN_USE = {place: frozenset[str]() for place in Elsewhere} | {Elsewhere.METADATA: frozenset({"ssd", "iso.tier"})}


def test_names_prefixes_and_functions_choose_keys() -> None:
    keys = Keys(names=frozenset({"a:b"}), prefixes=("hw:",), matching=(is_unscoped,))
    assert [key for key in ("a:b", "hw:x", "ssd", "c:d") if keys.always_has(key)] == ["a:b", "hw:x", "ssd"]
    assert ALL_KEYS.always_has("anything")
    assert not NO_KEYS.has("ssd", IN_USE)


def test_a_key_may_depend_on_its_use_in_another_place() -> None:
    keys = Keys(elsewhere=(Elsewhere.METADATA,), beginning="iso.")
    assert keys.has("iso.tier", IN_USE)
    assert not keys.has("iso.other", IN_USE)
    assert not keys.has("ssd", IN_USE), "it does not begin as it must"
    assert (keys.places_of("iso.other"), keys.places_of("ssd")) == ((Elsewhere.METADATA,), ())


def test_the_reads_of_two_rules_are_joined() -> None:
    joined = Reads(extra_specs=names("a")) | Reads(
        extra_specs=Keys(prefixes=("b",), elsewhere=(Elsewhere.METADATA,)), hints=names("h")
    )
    assert all(joined.extra_specs.has(key, IN_USE) for key in ("a", "bc", "ssd"))
    assert joined.hints.always_has("h")
    assert joined.properties == NO_KEYS


def test_only_the_class_of_a_rule_itself_declares_its_reads() -> None:
    class Declared:
        reads = Reads(hints=names("h"))

    class Derived(Declared): ...

    class Wrong:
        reads = "hints"

    assert reads_of(Declared()) == Reads(hints=names("h"))
    assert reads_of(Derived()) is None
    assert reads_of(Wrong()) is None
