# SPDX-License-Identifier: Apache-2.0
"""Validation by JSON Schemas: a fast validator checks every request, and jsonschema generates the error messages.

Patterns are matched by a regular expression engine with linear run time, also for error messages, so that no input
makes a pattern slow. This engine does not support lookahead and lookbehind.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, ClassVar

import jsonschema_rs

from kilonova.api.microversion import Version
from kilonova.errors import InvalidRequest

Schema = Mapping[str, Any]
_MESSAGE = 1000
#: Maximum size, in nested values and in characters, of a JSON value for which jsonschema generates the error message.
#: For a value of this size, jsonschema takes milliseconds.
_EXPLAINED_VALUES = 2_000
_EXPLAINED_CHARACTERS = 200_000
_LINEAR = jsonschema_rs.RegexOptions()


class Compiled:
    """One JSON Schema, compiled for checks and for error messages."""

    formats: ClassVar[Mapping[str, Callable[[str], bool]]] = {}

    def __init__(self, schema: Schema) -> None:
        self.schema = dict(schema)
        self._fast = jsonschema_rs.validator_for(
            self.schema, validate_formats=True, formats=dict(self.formats), pattern_options=_LINEAR
        )
        self.is_valid = self._fast.is_valid

    def explain(self, instance: Any) -> InvalidRequest:
        """Return the error for a JSON value that the schema does not accept. The error names the field."""
        try:
            if _is_explainable(instance):
                return self._explain(instance)
        except RecursionError:
            return invalid_field("body", "The body is nested too deeply.")
        return self._first_error(instance)

    def _explain(self, instance: Any) -> InvalidRequest:
        import jsonschema  # noqa: PLC0415 - slow to import, and most processes start without a bad request

        validator = wording_validator()(self.schema, format_checker=jsonschema.FormatChecker())
        errors = sorted(validator.iter_errors(instance), key=lambda error: [str(part) for part in error.absolute_path])
        if not errors:  # rare: only the fast validator refuses the value, e.g. a float as an integer
            return self._first_error(instance)
        error = jsonschema.exceptions.best_match(errors) or errors[0]
        return _refusal(error.absolute_path, error.instance, error.message)

    def _first_error(self, instance: Any) -> InvalidRequest:
        """Return the error with the message of the fast validator; jsonschema is too slow for large JSON values."""
        found = self.first_found(instance)
        return _refusal(found.instance_path, found.instance, found.message)

    def first_found(self, instance: Any) -> jsonschema_rs.ValidationError:
        """Return the first error that the fast validator finds in an invalid JSON value."""
        try:
            self._fast.validate(instance)
        except jsonschema_rs.ValidationError as found:
            return found
        raise AssertionError("the JSON value is valid by its schema")


def _is_explainable(instance: Any) -> bool:
    """Whether a JSON value is small enough for jsonschema, which is slow because it is written in Python."""
    waiting, characters = [instance], 0
    for item in waiting:  # the list grows during the iteration
        if isinstance(item, str):
            characters += len(item)
        elif isinstance(item, dict):
            waiting += item.values()
            characters += sum(map(len, item))
        elif isinstance(item, list):
            waiting += item
        if len(waiting) > _EXPLAINED_VALUES or characters > _EXPLAINED_CHARACTERS:
            return False
    return True


@cache
def _matcher(pattern: str) -> Callable[[str], bool]:
    return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=_LINEAR).is_valid


def _unnamed(instance: Mapping[str, Any], schema: Schema) -> list[str]:
    """Return the keys that match neither ``properties`` nor ``patternProperties`` of a schema."""
    matchers = [_matcher(pattern) for pattern in schema.get("patternProperties", ())]
    known = schema.get("properties", {})
    return [key for key in instance if key not in known and not any(matches(key) for matches in matchers)]


@cache
def wording_validator() -> Any:
    """Return a variant of jsonschema's validator, whose regular expression engine has linear run time."""
    import jsonschema  # noqa: PLC0415 - slow to import, and most processes start without a bad request

    error = jsonschema.ValidationError

    def pattern(_validator: Any, wanted: str, instance: Any, _schema: Schema) -> Iterator[Any]:
        if isinstance(instance, str) and not _matcher(wanted)(instance):
            yield error(f"{instance!r} does not match {wanted!r}")

    def pattern_properties(validator: Any, by_pattern: Schema, instance: Any, _schema: Schema) -> Iterator[Any]:
        for wanted, schema in by_pattern.items() if isinstance(instance, dict) else ():
            for key in filter(_matcher(wanted), instance):
                yield from validator.descend(instance[key], schema, path=key, schema_path=wanted)

    def additional_properties(validator: Any, allowed: Any, instance: Any, schema: Schema) -> Iterator[Any]:
        unnamed = _unnamed(instance, schema) if isinstance(instance, dict) and allowed is not True else []
        if isinstance(allowed, dict):
            for key in unnamed:
                yield from validator.descend(instance[key], allowed, path=key)
        elif unnamed:
            keys, one = ", ".join(map(repr, sorted(unnamed))), len(unnamed) == 1
            if "patternProperties" in schema:
                patterns = ", ".join(map(repr, sorted(schema["patternProperties"])))
                yield error(f"{keys} {'does' if one else 'do'} not match any of the regexes: {patterns}")
            else:
                was = "was" if one else "were"
                yield error(f"Additional properties are not allowed ({keys} {was} unexpected)")

    return jsonschema.validators.extend(  # type: ignore[no-untyped-call]
        jsonschema.Draft202012Validator,
        {
            "pattern": pattern,
            "patternProperties": pattern_properties,
            "additionalProperties": additional_properties,
        },
    )


def _refusal(path: Iterable[Any], value: Any, message: str) -> InvalidRequest:
    field, message = ".".join(str(part) for part in path), shortened(message)
    if not field:
        return InvalidRequest(message)
    return invalid_field(field, f"Value: {shortened(str(value))}. {message}")


def invalid_field(field: str, message: str) -> InvalidRequest:
    """Return the error 400 for the invalid field ``field`` of a body."""
    return InvalidRequest(f"Invalid input for field/attribute {field}. {message}", field=field)


def invalid_parameter(name: str, value: object, message: str) -> InvalidRequest:
    """Return the error 400 for the invalid query parameter ``name``."""
    return InvalidRequest(
        f"Invalid input for query parameters {name}. Value: {shortened(str(value))}. {message}", field=name
    )


def shortened(text: str) -> str:
    """Shorten a long text by omitting its middle. It keeps the end, which contains the reason in error messages."""
    half = _MESSAGE // 2
    return text if len(text) <= _MESSAGE else f"{text[:half]} ... {text[-half:]}"


class Schemas:
    """The schemas of one body or query, by the microversion in which each starts to apply.

    Example: ``Schemas({(2, 1): {...}, (2, 55): {...}})``. Before the first microversion, any body or query is valid.
    """

    compiled_by: ClassVar[type[Compiled]] = Compiled

    def __init__(self, by_version: Mapping[tuple[int, int], Schema]) -> None:
        self.by_version = by_version
        self._steps = sorted((Version(*version), schema) for version, schema in by_version.items())
        self._compiled: dict[int, Compiled] = {}

    def check(self, instance: Any, version: Version) -> None:
        """Raise InvalidRequest naming the field unless the JSON value ``instance`` fits the schema of ``version``."""
        index = -1
        for start, _ in self._steps:
            if version < start:
                break
            index += 1
        if index < 0:
            return
        compiled = self._compiled.get(index)
        if compiled is None:
            compiled = self._compiled[index] = self.compiled_by(self._steps[index][1])
        if not compiled.is_valid(instance):
            raise compiled.explain(instance)
