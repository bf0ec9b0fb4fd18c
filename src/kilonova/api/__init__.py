# SPDX-License-Identifier: Apache-2.0
"""HTTP edge of the cloud: routes, schemas, microversions, policy and faults, kept out of the handlers.

Forbidden here: SQL, scheduling, talking to agents. ``api`` and ``compute`` never import each other.
"""
