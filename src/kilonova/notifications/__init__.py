# SPDX-License-Identifier: Apache-2.0
"""Notifications to other services, in Nova's versioned and unversioned formats.

In: events of the conductor and the API, after their commit. Out: messages to a broker or lines in a file, sent by one
thread with a bounded queue. Without a driver nothing is read, computed or sent (ADR 32).
Forbidden here: changing state, and blocking the thread that publishes an event.
"""
