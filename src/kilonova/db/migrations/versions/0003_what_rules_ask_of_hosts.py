# SPDX-License-Identifier: Apache-2.0
"""Add columns that filters and weighers read: metrics of hypervisors, and image properties of instances."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_TOGETHER = 500


def upgrade() -> None:
    op.add_column("compute_nodes", sa.Column("metrics", sa.JSON()))
    op.add_column("instances", sa.Column("image_properties", sa.JSON()))
    _fill_in()


def _fill_in() -> None:
    """Copy image properties of existing instances from their request specs."""
    connection = op.get_bind()
    instances = sa.table("instances", sa.column("uuid"), sa.column("deleted"), sa.column("image_properties", sa.JSON()))
    specs = sa.table("request_specs", sa.column("instance_uuid"), sa.column("body", sa.JSON()))
    present = sa.select(instances.c.uuid).where(instances.c.deleted.is_(sa.false()))
    uuids = connection.execute(present).scalars().all()
    for start in range(0, len(uuids), _TOGETHER):
        chunk = uuids[start : start + _TOGETHER]
        found = connection.execute(sa.select(specs).where(specs.c.instance_uuid.in_(chunk))).all()
        known = [
            {"key": uuid, "properties": body["image"]["properties"]}
            for uuid, body in found
            if body["image"] and body["image"]["properties"]
        ]
        if known:
            connection.execute(
                sa.update(instances)
                .where(instances.c.uuid == sa.bindparam("key"))
                .values(image_properties=sa.bindparam("properties", type_=sa.JSON())),
                known,
            )
