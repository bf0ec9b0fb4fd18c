# SPDX-License-Identifier: Apache-2.0
"""`kilonova console-proxy`: connects WebSocket clients that have a token, such as browsers, to consoles of guests."""

import ssl
from typing import TYPE_CHECKING

from kilonova.bundled_services.deferred_modules import make_unavailable
from kilonova.cli.cloud.settings import RequiredConfigFiles
from kilonova.errors import ConfigurationError

if TYPE_CHECKING:  # these modules are slow to import, and --help does not need them
    from kilonova.config.console_proxy import ConsoleProxySettings, ProxySettings
    from kilonova.console_proxy.proxy import ConsoleProxy

#: Interval in seconds at which the tokens of open consoles are checked for expiry.
_RECHECK_S = 30.0
_SOCKETS_OF_A_CONSOLE = 2


def console_proxy(config_file: RequiredConfigFiles) -> None:
    """Serve consoles of guests to WebSocket clients with a token, and noVNC to browsers."""
    make_unavailable("osprofiler")  # otherwise keystoneauth loads it, with WebOb and Paste, which takes 5 MiB
    from kilonova.cli.wiring.log import configure_log, reread_debug  # noqa: PLC0415 - slow to import
    from kilonova.config.console_proxy import load_proxy_settings  # noqa: PLC0415 - start-up time
    from kilonova.server.serving import serve_until_told  # noqa: PLC0415 - start-up time

    settings = load_proxy_settings(config_file)
    proxy = make_proxy(settings)
    configure_log(settings.log)
    serve_until_told(proxy, reread_debug(lambda: load_proxy_settings(config_file).log))


def make_proxy(settings: "ProxySettings") -> "ConsoleProxy":
    """Return the proxy that the settings describe, with open listening sockets.

    Raises: ConfigurationError, Unavailable.
    """
    from kilonova.console_proxy.proxy import ConsoleProxy, ProxyLimits  # noqa: PLC0415 - start-up time
    from kilonova.console_proxy.tokens import ComputeApi  # noqa: PLC0415 - start-up time
    from kilonova.identity.keystone import compute_adapter_of  # noqa: PLC0415 - start-up time
    from kilonova.model.console import ConsoleProtocol  # noqa: PLC0415 - start-up time
    from kilonova.server.listening import connections_possible, listen  # noqa: PLC0415 - start-up time

    proxy, consoles = settings.proxy, settings.consoles
    if set(proxy.auth_schemes) != {"none"}:
        raise ConfigurationError("[vnc] auth_schemes: only 'none' is supported.")
    kinds = (
        (consoles.vnc_enabled, ConsoleProtocol.VNC, proxy.vnc_host, proxy.vnc_port),
        (consoles.serial_enabled, ConsoleProtocol.SERIAL, proxy.serial_host, proxy.serial_port),
    )
    if not any(enabled for enabled, *_ in kinds):
        raise ConfigurationError("The proxy has nothing to serve: set [vnc] enabled or [serial_console] enabled.")
    adapter = compute_adapter_of(settings.conf)
    if adapter is None:
        raise ConfigurationError(
            "Neither [nova] nor [service_user] has credentials for looking up tokens in the compute API. "
            "Set there the credentials of a user with the role 'service'."
        )
    possible = connections_possible(_SOCKETS_OF_A_CONSOLE * proxy.max_connections) // _SOCKETS_OF_A_CONSOLE
    return ConsoleProxy(
        ComputeApi(adapter),
        [
            (protocol, listen(host, port, f"{protocol.value} consoles"))
            for enabled, protocol, host, port in kinds
            if enabled
        ],
        ProxyLimits(
            connections=min(possible, proxy.max_connections),
            of_one_server=proxy.max_connections_per_server,
            idle_s=proxy.idle_timeout_s or None,
            recheck_s=_RECHECK_S if proxy.enforce_session_timeout else None,
        ),
        web=proxy.web,
        allowed_origins=proxy.allowed_origins,
        tls=_tls_of(proxy),
    )


def _tls_of(proxy: "ConsoleProxySettings") -> ssl.SSLContext | None:
    """Return the TLS context, or None if no certificate is configured. Raises: ConfigurationError."""
    from kilonova.server.listening import tls_context  # noqa: PLC0415 - start-up time

    if proxy.cert_file is None:
        if proxy.ssl_only:
            raise ConfigurationError("[DEFAULT] ssl_only needs a certificate: [DEFAULT] cert is not set.")
        return None
    context = tls_context(str(proxy.cert_file), str(proxy.key_file) if proxy.key_file else None, "[DEFAULT] cert")
    if proxy.ssl_minimum_version == "tlsv1_3":
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if proxy.ssl_ciphers:
        try:
            context.set_ciphers(proxy.ssl_ciphers)
        except ssl.SSLError as error:
            raise ConfigurationError(f"[console] ssl_ciphers: {error.reason}.") from error
    return context
