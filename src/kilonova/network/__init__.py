# SPDX-License-Identifier: Apache-2.0
"""Client of the network service (Neutron), and Kilonova's requests to it: ports, addresses, bindings.

In: requests with the token of a user, or as Kilonova's own service user. Out: values of ``model/network_info.py``.
Forbidden here: the database, and calls under any lock. Without a configured network service there is no client: the
cloud works without networks.
"""
