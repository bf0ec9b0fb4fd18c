# SPDX-License-Identifier: Apache-2.0
"""The HTTP server: a WSGI application in, answers to HTTP/1.1 requests out.

Bodies are received before a thread runs the application, so slow clients cost memory and file descriptors, both
bounded, and no threads. Nothing here knows what is served. ADR 9 says why Kilonova has a server of its own.
"""
