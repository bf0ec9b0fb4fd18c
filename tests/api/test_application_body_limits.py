# SPDX-License-Identifier: Apache-2.0
"""Bodies have a size under any WSGI server, also when they come in chunks."""

import io
from dataclasses import replace

import pytest

from kilonova.api.application import WsgiApp
from support.api_client import Answer, Client
from support.control import Control, NewControl

LIMITS = """
[oslo_middleware]
max_request_body_size = 1000
[placement]
max_request_body_size = 3000
[operator]
max_request_body_size = 2000
"""


@pytest.fixture(scope="module")
def limited(new_shared_control: NewControl) -> Control:
    return new_shared_control(more=LIMITS, flavor=False)


class Trickle(io.RawIOBase):
    """A body as some servers hand it over: a little at each read. Counts what is taken of it."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.taken = 0

    def read(self, size: int = -1) -> bytes:
        given = min(700, self.left, size if size >= 0 else self.left)
        self.left -= given
        self.taken += given
        return b" " * given


def in_chunks(app: WsgiApp, body: Trickle) -> WsgiApp:
    def chunked(environ: dict[str, object], start_response: object) -> object:
        for name in ("CONTENT_LENGTH", "HTTP_CONTENT_LENGTH"):
            environ.pop(name, None)
        environ |= {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input": body, "wsgi.input_terminated": True}
        return app(environ, start_response)  # type: ignore[arg-type]

    return chunked  # type: ignore[return-value]


CASES = [("compute", "/flavors", 1000), ("placement", "/resource_providers", 3000), ("operator", "/explain", 2000)]


def ask(control: Control, api: str, path: str, size: int, *, chunks: bool) -> tuple[Answer, int]:
    body = Trickle(size)
    app = in_chunks(control.process.application, body) if chunks else control.process.application
    client = replace(Client(app, version="1.39" if api == "placement" else "2.100"), api=api)
    return client.post(path, b" " * size), body.taken


@pytest.mark.parametrize("chunks", [False, True])
@pytest.mark.parametrize(("api", "path", "most"), CASES)
def test_a_body_may_be_so_large_and_no_larger(limited: Control, api: str, path: str, most: int, chunks: bool) -> None:
    assert ask(limited, api, path, most, chunks=chunks)[0].status != 413
    answer, taken = ask(limited, api, path, most * 1000, chunks=chunks)
    assert answer.status == 413
    assert taken <= most + 1
    if api == "compute":
        assert answer.fault == ("overLimit", "The body of the request is larger than 1000 bytes.")
    elif api == "placement":
        assert (answer.error["title"], answer.detail) == (
            "Request Entity Too Large",
            "The body of the request is larger than 3000 bytes.",
        )


def test_the_defaults_are_those_of_nova_and_of_the_documentation(control: Control) -> None:
    bodies = control.process.settings.bodies
    assert (bodies.compute, bodies.placement, bodies.operator) == (114_688, 16 << 20, 1 << 20)
