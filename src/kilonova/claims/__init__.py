# SPDX-License-Identifier: Apache-2.0
"""Claims of hosts for servers: decide, assume the claim in the mirror, commit it, then confirm or forget it.

In: an order for servers. Out: committed claims of hosts, or NoValidHost with the reasons.
Only this package uses the engine, the mirror and the database together.
"""
