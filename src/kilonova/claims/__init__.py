# SPDX-License-Identifier: Apache-2.0
"""Claims: decide, assume, commit, confirm or forget. The only package that uses engine, mirror and database together.

In: an order for servers. Out: committed claims of hosts, or NoValidHost with the reasons.
"""
