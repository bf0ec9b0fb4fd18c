# SPDX-License-Identifier: Apache-2.0
"""Keys that Kilonova's own HTTP server adds to the WSGI environment of an application."""

#: Key of a function that returns whether the client has closed the connection.
CLIENT_GONE = "kilonova.client_gone"
#: Key of the HTTP status with which the application must refuse a request whose body the server has not read.
BODY_REFUSED = "kilonova.body_refused"
