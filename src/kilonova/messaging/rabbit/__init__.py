# SPDX-License-Identifier: Apache-2.0
"""The bus between processes: RabbitMQ, by py-amqp (ADR 20).

``link.py`` owns a connection, ``agent_end.py`` and ``conductor_end.py`` are the two ends, ``topology.py`` says what
there is in the broker and who may do what. py-amqp is imported here and nowhere else.
"""
