# SPDX-License-Identifier: Apache-2.0
"""A proxy between browsers and the consoles of guests: WebSocket on one side, VNC or a serial port on the other.

::

    browser ── ws://PROXY/?token=… ──▶ opening.py   origin and token of the request
                                       tokens.py    token → console, by the compute API
                                       rfb.py       VNC: the security handshake, once with each side
                                       relay.py     bytes in both directions until one side ends ──▶ hypervisor

In: a lookup of tokens, and listening sockets. Out: nothing. The proxy uses no database, and never logs a token.
"""
