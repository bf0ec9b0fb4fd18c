# SPDX-License-Identifier: Apache-2.0
"""What other services are told of this cloud, in the two formats that they know from Nova.

In: events of the conductor and of the API, after the commit that made them so. Out: messages at a broker or lines of a
file, from one thread with a bounded queue. Without a driver nothing is read, computed or sent (ADR 32).
Forbidden here: changing anything, and waiting on the thread of whoever tells.
"""
