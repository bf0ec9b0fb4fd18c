# SPDX-License-Identifier: Apache-2.0
"""Agents enrolled and revoked in a database."""

from collections.abc import Collection

from kilonova.db import enrolment
from kilonova.db.database import Database


def enrol(database: Database, name: str, *hosts: str, removed: Collection[str] = ()) -> enrolment.EnrolledAgent:
    return database.write(lambda tx: enrolment.enrol(tx, name, hosts, removed))


def revoke(database: Database, name: str) -> enrolment.EnrolledAgent:
    return database.write(lambda tx: enrolment.revoke(tx, name))
