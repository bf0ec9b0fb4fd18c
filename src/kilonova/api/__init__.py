# SPDX-License-Identifier: Apache-2.0
"""HTTP in, HTTP out: routes, schemas, microversions, policy and faults around handlers that hold none of these.

Forbidden here: SQL, scheduling, talking to agents. ``api`` and ``compute`` never import each other.
"""
