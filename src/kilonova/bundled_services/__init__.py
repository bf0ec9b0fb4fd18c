# SPDX-License-Identifier: Apache-2.0
"""The real Keystone, Glance, RabbitMQ and libvirtd, as child processes of ``kilonova up``.

In: a settings file (``settings.py``) with addresses, accounts and a folder. Out: a service that accepts connections.
Forbidden here: imports from Kilonova except ``errors``; the bundled services know nothing of compute. Keystone and
Glance are imported only by their own module, each in a process of its own, because both use the global
``oslo_config.cfg.CONF``.
"""
