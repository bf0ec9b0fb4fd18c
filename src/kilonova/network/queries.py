# SPDX-License-Identifier: Apache-2.0
"""Query strings of list requests. A query string that would be too long is divided into several."""

from collections.abc import Iterator, Mapping
from urllib.parse import urlencode, urlsplit

#: Maximum length of a query string. Neutron refuses a request line of more than 8,192 characters with 414.
_LONGEST = 6000
_FIELDS = "fields"


def queries(filters: Mapping[str, object]) -> Iterator[str]:
    """Yield query strings that begin with a question mark; their results together are all resources that match.

    A filter without values matches nothing, so no query string is yielded.
    """
    lists = {name: _texts(value) for name, value in filters.items()}
    if not all(values for name, values in lists.items() if name != _FIELDS):
        return
    longest = max(
        (name for name in lists if name != _FIELDS), key=lambda name: len(_encoded(name, lists[name])), default=""
    )
    fixed = "&".join(_encoded(name, values) for name, values in lists.items() if name != longest and values)
    if not longest:
        yield f"?{fixed}" if fixed else ""
        return
    for part in _parts(longest, lists[longest], _LONGEST - len(fixed)):
        yield "?" + "&".join(filter(None, (fixed, part)))


def query_of_link(link: str) -> str:
    """Return the query of a link to the next page; its host and path may be those of a proxy."""
    return f"?{urlsplit(link).query}"


def _parts(name: str, values: tuple[str, ...], room: int) -> Iterator[str]:
    """Yield the encoded values in parts of at most ``room`` characters, but at least one value each."""
    part = ""
    for value in values:
        pair = _encoded(name, (value,))
        if part and len(part) + 1 + len(pair) > room:
            yield part
            part = pair
        else:
            part = f"{part}&{pair}" if part else pair
    yield part


def _encoded(name: str, values: tuple[str, ...]) -> str:
    return urlencode([(name, value) for value in values])


def _texts(value: object) -> tuple[str, ...]:
    """Return the values of a filter as texts, without duplicates."""
    values = value if isinstance(value, list | tuple | set | frozenset) else (value,)
    return tuple(dict.fromkeys(str(each) for each in values))
