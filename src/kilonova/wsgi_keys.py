# SPDX-License-Identifier: Apache-2.0
"""Keys that Kilonova's own HTTP server adds to the WSGI environment of an application."""

#: Key of a function that returns whether the client has closed the connection.
CLIENT_GONE = "kilonova.client_gone"
#: Key of the HTTP status with which the application must refuse a request whose body the server has not read.
BODY_REFUSED = "kilonova.body_refused"
#: Key of a function that takes a stream of events (``server/event_streams.py``), which the server sends after the
#: headers of the response, without a thread. Absent under other WSGI servers.
HAND_OVER = "kilonova.hand_over"
