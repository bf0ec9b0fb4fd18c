# SPDX-License-Identifier: Apache-2.0
"""Keys of the WSGI environment by which Kilonova's own HTTP server tells an application more than WSGI does."""

#: A function that says whether the client has gone.
CLIENT_GONE = "kilonova.client_gone"
#: The HTTP status for which the body was not read.
BODY_REFUSED = "kilonova.body_refused"
