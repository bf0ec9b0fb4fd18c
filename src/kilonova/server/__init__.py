# SPDX-License-Identifier: Apache-2.0
"""The HTTP/1.1 server for WSGI applications.

A body is received completely before a thread runs the application, so slow clients use memory and file descriptors,
both bounded, but no threads. Independent of the application. ADR 9: the reasons for an own HTTP server.
"""
