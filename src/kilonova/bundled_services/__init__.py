# SPDX-License-Identifier: Apache-2.0
"""The real Keystone, Glance, Neutron, RabbitMQ and libvirtd, as child processes of ``kilonova up``.

In: a settings file (``settings.py``) with addresses, accounts and a folder. Out: a service that accepts connections.
Forbidden here: imports from Kilonova except ``errors``; the bundled services know nothing of compute. Keystone,
Glance and Neutron are imported only by their own modules, each in a process of its own, because all use the global
``oslo_config.cfg.CONF``; Neutron is installed in an environment of its own (``neutron_environment.py``, ADR 37).
"""
