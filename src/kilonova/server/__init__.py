# SPDX-License-Identifier: Apache-2.0
"""The HTTP/1.1 server for WSGI applications.

A body is received completely before a thread runs the application, so a slow client uses a bounded amount of memory and
a file descriptor, but no thread. The server does not depend on the application. ADR 9 gives the reasons for an HTTP
server of Kilonova's own.
"""
