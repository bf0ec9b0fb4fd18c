# SPDX-License-Identifier: Apache-2.0
"""Notifications to other services, in Nova's versioned and unversioned formats.

In: events of the conductor and the API, after the commit of the change. Out: messages to a broker or lines in a file,
sent by one thread from a bounded queue. If no notification driver is configured, nothing is read, computed or sent
(ADR 32).
Forbidden here: changing state, and blocking the thread that publishes an event.
"""
