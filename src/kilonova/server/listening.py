# SPDX-License-Identifier: Apache-2.0
"""The listening socket of an HTTP server, its TLS context, and the process's limit of open files."""

import errno
import resource
import socket
import ssl
import time
from pathlib import Path

from kilonova.errors import ConfigurationError, Unavailable

_PORT_WAIT_S = 1.0  # time to wait for a port that a stopping process still holds
_BACKLOG = 4096
_OWN_FILES = 256  # number of file descriptors reserved for the database, logs and libraries


def listen(host: str, port: int, name: str) -> socket.socket:
    """Listen on an address. ``name``: name of the option that sets the address, for error messages.

    Raises: Unavailable if the address is in use or invalid.
    """
    deadline = time.monotonic() + _PORT_WAIT_S
    while True:
        listener: socket.socket | None = None
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listener = socket.socket(family, kind, protocol)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError as error:
            if listener is not None:
                listener.close()
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise Unavailable(f"{name}: {host}:{port} cannot be used: {error.strerror}.") from error
            time.sleep(0.05)
        else:
            listener.setblocking(False)
            return listener


def listen_locally(path: str, name: str) -> socket.socket:
    """Listen on a Unix socket that only this user can use. A file at the path is replaced: an ended process leaves one.

    ``name``: name of the option that sets the path, for error messages. Raises: Unavailable.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        Path(path).unlink(missing_ok=True)
        listener.bind(path)
        Path(path).chmod(0o600)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise Unavailable(f"{name}: {path} cannot be used: {error.strerror or error}.") from error
    listener.setblocking(False)
    return listener


def listen_together(host: str, port: int, name: str, count: int) -> tuple[socket.socket, ...]:
    """Listen on an address with several sockets, among which the kernel distributes connections (SO_REUSEPORT).

    A socket gets its share of the connections even if no process accepts them. ``name``: as for :func:`listen`. Other
    processes cannot use the address unless they share it, too, and run as the same user. Raises: Unavailable.
    """
    first = listen(host, port, name)  # without SO_REUSEPORT: fails if another process listens on the address
    sockets = [first]
    if count > 1:
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        for _ in range(count - 1):
            another = socket.socket(first.family, first.type, first.proto)
            sockets.append(another)
            another.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            another.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if first.family == socket.AF_INET6:
                another.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            another.bind(first.getsockname())
            another.listen(_BACKLOG)
            another.setblocking(False)
    except OSError as error:
        for each in sockets:
            each.close()
        raise Unavailable(f"{name}: {host}:{port} cannot be shared: {error.strerror}.") from error
    return tuple(sockets)


def tls_context(cert_file: str, key_file: str | None, name: str) -> ssl.SSLContext:
    """Return a TLS context with a certificate and its key. Raises: ConfigurationError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(cert_file, key_file, password=_no_password)
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigurationError(f"{name}: {cert_file} and {key_file or cert_file} cannot be used: {what}.") from error
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted with a password, which is not supported")


def connections_possible(wanted: int) -> int:
    """Raise the limit of open files for ``wanted`` connections.

    Return how many connections the resulting limit allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OWN_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else max(16, min(wanted, soft - _OWN_FILES))
