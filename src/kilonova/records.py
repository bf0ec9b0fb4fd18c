# SPDX-License-Identifier: Apache-2.0
"""Dataclasses whose methods are generated when they are first called.

Python's ``dataclass`` compiles up to six methods while a class is defined. Kilonova has more than 600 such classes, and
a process calls a fraction of their methods, so this would be a third of the start of a control process. ``dataclasses``
and msgspec accept these classes as well, and Python's decorator accepts them as base classes.
"""

import dataclasses
import reprlib
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast, dataclass_transform, overload

T = TypeVar("T")
_MAKE = object()  # default of parameters whose default is made by a factory
_KEEP = object()  # default of the parameters of __replace__

if TYPE_CHECKING:
    from dataclasses import replace as replace  # noqa: PLC0414 - mypy checks the arguments of this one
else:

    def replace(record: T, /, **changes: Any) -> T:
        """Return a copy with changed fields, in a third of the time of `dataclasses.replace`."""
        return record.__replace__(**changes)


@overload
def dataclass(cls: type[T], /) -> type[T]: ...
@overload
@dataclass_transform(field_specifiers=(field,))
def dataclass(
    *, eq: bool = True, frozen: bool = False, slots: bool = False, kw_only: bool = False
) -> Callable[[type[T]], type[T]]: ...
def dataclass(
    cls: type[T] | None = None, /, *, eq: bool = True, frozen: bool = False, slots: bool = False, kw_only: bool = False
) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a class a dataclass, as `dataclasses.dataclass` does with the same parameters."""

    def made(of: type[T]) -> type[T]:
        own = frozenset(of.__dict__)
        if of.__dict__.get("__hash__") is None:
            own -= {"__hash__"}  # Python has set it to None because the class defines __eq__
        if not of.__doc__:
            of.__doc__ = of.__name__  # otherwise Python's decorator would derive a text from the signature
        # Python compares this class with its base classes; without any, it need not compile the methods that refuse
        as_bases = frozen and any(dataclasses.is_dataclass(base) for base in of.__mro__[1:])
        python_s = dataclasses.dataclass(  # noqa: TID251 - this decorator extends it
            init=False, repr=False, eq=False, frozen=as_bases, slots=slots, kw_only=kw_only
        )
        record: Any = python_s(of)
        record.__dataclass_params__.frozen = frozen
        _add_methods(record, own, eq=eq, frozen=frozen)
        return cast("type[T]", record)

    return made if cls is None else made(cls)


def _add_methods(record: Any, own: frozenset[str], *, eq: bool, frozen: bool) -> None:
    """Add the methods that the class does not define itself. ``own``: the names that it defines."""
    if "__init__" not in own:
        _generate_later(record, "__init__", lambda: _init(record, frozen=frozen))
    _generate_later(record, "__replace__", lambda: _replace(record))
    if "__repr__" not in own:
        record.__repr__ = _repr
    if eq and "__eq__" not in own:
        _generate_later(record, "__eq__", lambda: _eq(record))
    if eq and "__hash__" not in own:
        if frozen:
            _generate_later(record, "__hash__", lambda: _hash(record))
        else:
            record.__hash__ = None
    if frozen:
        record.__setattr__, record.__delattr__ = _refuse_to_set, _refuse_to_delete
        if "__getstate__" not in own:
            record.__getstate__, record.__setstate__ = _state, _set_state


def _generate_later(record: type, name: str, generate: Callable[[], Callable[..., Any]]) -> None:
    """Add a method that replaces itself by the result of ``generate`` when it is called."""

    def method(*values: Any, **named: Any) -> Any:
        generated = generate()  # two threads may do this at the same time, with equal results
        setattr(record, name, generated)
        return generated(*values, **named)

    setattr(record, name, method)


def _init(record: Any, *, frozen: bool) -> Callable[..., Any]:
    names: dict[str, Any] = {"_make_": _MAKE, "_set_": object.__setattr__}
    parameters: dict[bool, list[str]] = {False: [], True: []}
    lines = []
    for item in dataclasses.fields(record):
        value = item.name
        if item.default_factory is not MISSING:
            names[f"_factory_{item.name}"] = item.default_factory
            value = f"_factory_{item.name}()"
            if item.init:
                parameters[bool(item.kw_only)].append(f"{item.name}=_make_")
                value = f"{value} if {item.name} is _make_ else {item.name}"
        elif item.default is not MISSING:
            names[f"_default_{item.name}"] = item.default
            if item.init:
                parameters[bool(item.kw_only)].append(f"{item.name}=_default_{item.name}")
            else:
                value = f"_default_{item.name}"
        elif item.init:
            parameters[bool(item.kw_only)].append(item.name)
        else:
            continue
        lines.append(_assignment(record, item, value, names, frozen=frozen))
    if hasattr(record, "__post_init__"):
        lines.append("_self_.__post_init__()")
    star = ["*", *parameters[True]] if parameters[True] else []
    return _compiled(record, "__init__", ["_self_", *parameters[False], *star], lines or ["pass"], names)


def _assignment(record: Any, item: "Field[Any]", value: str, names: dict[str, Any], *, frozen: bool) -> str:
    """Return the line that sets a field. ``names``: receives a global name of the line."""
    if not frozen:
        return f"_self_.{item.name} = {value}"
    slot = getattr(record, item.name, None)
    if isinstance(slot, MemberDescriptorType):  # twice as fast as object.__setattr__
        names[f"_slot_{item.name}"] = slot.__set__
        return f"_slot_{item.name}(_self_, {value})"
    return f"_set_(_self_, {item.name!r}, {value})"


def _replace(record: Any) -> Callable[..., Any]:
    names = [item.name for item in dataclasses.fields(record) if item.init]
    by_name = {item.name for item in dataclasses.fields(record) if item.kw_only}
    values = [
        f"{f'{name}=' if name in by_name else ''}_self_.{name} if {name} is _keep_ else {name}"
        for name in sorted(names, key=by_name.__contains__)
    ]
    parameters = ["_self_", *(["*"] if names else []), *(f"{name}=_keep_" for name in names)]
    lines = [f"return _self_.__class__({', '.join(values)})"]
    return _compiled(record, "__replace__", parameters, lines, {"_keep_": _KEEP})


def _eq(record: Any) -> Callable[..., Any]:
    compared = [item.name for item in dataclasses.fields(record) if item.compare]
    mine, others = (_tuple_of(owner, compared) for owner in ("self", "other"))
    lines = ["if other.__class__ is not self.__class__: return NotImplemented", f"return {mine} == {others}"]
    return _compiled(record, "__eq__", ["self", "other"], lines, {})


def _hash(record: Any) -> Callable[..., Any]:
    hashed = [item.name for item in dataclasses.fields(record) if (item.compare if item.hash is None else item.hash)]
    return _compiled(record, "__hash__", ["self"], [f"return hash({_tuple_of('self', hashed)})"], {})


def _tuple_of(owner: str, names: list[str]) -> str:
    return f"({''.join(f'{owner}.{name},' for name in names)})"


def _compiled(
    record: Any, name: str, parameters: list[str], lines: list[str], names: dict[str, Any]
) -> Callable[..., Any]:
    source = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines)
    found: dict[str, Any] = {}
    exec(source, names, found)  # noqa: S102 - the text contains names of fields only
    method: Callable[..., Any] = found[name]
    method.__qualname__, method.__module__ = f"{record.__qualname__}.{name}", record.__module__
    return method


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{item.name}={getattr(self, item.name)!r}" for item in dataclasses.fields(self) if item.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse_to_set(_self: Any, name: str, _value: Any) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, item.name) for item in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for item, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, item.name, value)
