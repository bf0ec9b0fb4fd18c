# SPDX-License-Identifier: Apache-2.0
"""The message bus between processes: RabbitMQ, with the library py-amqp (ADR 20).

``link.py`` owns a connection, ``agent_end.py`` and ``conductor_end.py`` are the two ends, ``topology.py`` defines the
queues, exchanges and permissions. No other package imports py-amqp.
"""
