# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.model.flavor import Flavor
from kilonova.model.quota import Usage
from kilonova.model.server_migration import MigrationStatus, MigrationType, ServerMigration

SMALL, WIDE = Flavor("1", "small", 1, 4096, 1), Flavor("2", "wide", 8, 512, 1)


def migration(
    status: MigrationStatus, dest: str | None = "b", kind: MigrationType = MigrationType.RESIZE
) -> ServerMigration:
    return ServerMigration(
        uuid="m",
        instance_uuid="s",
        migration_type=kind,
        status=status,
        source_host="a",
        source_node="a1",
        old_flavor=SMALL,
        new_flavor=WIDE,
        dest_host=dest,
        dest_node=dest,
    )


@pytest.mark.parametrize(
    ("status", "under_way"),
    [
        (MigrationStatus.QUEUED, True),
        (MigrationStatus.FINISHED, True),
        (MigrationStatus.DONE, True),
        (MigrationStatus.COMPLETED, False),
        (MigrationStatus.CONFIRMED, False),
        (MigrationStatus.ERROR, False),
    ],
)
def test_a_move_with_a_destination_holds_two_sides_until_it_ends(status: MigrationStatus, under_way: bool) -> None:
    assert status.is_under_way is under_way
    assert migration(status).is_claimed is under_way
    assert not migration(status, dest=None).is_claimed


def test_a_resize_counts_the_larger_amount_of_each_resource() -> None:
    assert migration(MigrationStatus.FINISHED).largest == Usage(1, 8, 4096)


@pytest.mark.parametrize(
    ("status", "dest", "hosts"),
    [
        (MigrationStatus.RUNNING, "b", {"a", "b"}),
        (MigrationStatus.QUEUED, None, {"a"}),
        (MigrationStatus.RUNNING, "a", {"a"}),
        (MigrationStatus.DONE, "b", {"a"}),
    ],
)
def test_the_hosts_that_may_have_something_of_the_server(
    status: MigrationStatus, dest: str | None, hosts: set[str]
) -> None:
    assert migration(status, dest).hosts == hosts
    assert migration(status, dest).changes_host is (dest == "b")


def test_only_an_evacuated_server_has_left_its_source_for_good() -> None:
    assert migration(MigrationStatus.DONE, kind=MigrationType.EVACUATION).has_left
    assert not migration(MigrationStatus.ACCEPTED, kind=MigrationType.EVACUATION).has_left
    assert not migration(MigrationStatus.MIGRATING).has_left
