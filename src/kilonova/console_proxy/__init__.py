# SPDX-License-Identifier: Apache-2.0
"""A proxy between browsers and the consoles of guests: WebSocket on one side, VNC or a serial port on the other.

::

    browser ── ws://PROXY/?token=… ──▶ opening.py   whose page asks, with which token
                                       tokens.py    which console that is: the compute API is asked
                                       rfb.py       VNC: the security handshake, once with each side
                                       relay.py     bytes in both directions until one side ends ──▶ hypervisor

In: who checks tokens, and where to listen. Out: nothing. It knows no database, and no token is ever logged.
"""
