# SPDX-License-Identifier: Apache-2.0
"""[quota]: default quota limits, and the quota driver."""

from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.model.quota import NO_LIMITS, Limits
from kilonova.records import dataclass

DB_QUOTAS, NO_QUOTAS, UNIFIED_LIMITS = (
    f"nova.quota.{name}" for name in ("DbQuotaDriver", "NoopQuotaDriver", "UnifiedLimitsDriver")
)


def _limit(name: str) -> Option:
    return Option("Default limit; -1: no limit.", min=-1, former=(("DEFAULT", f"quota_{name}"),))


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """Default limits and the quota driver. -1: no limit. Units: ``ram`` in MiB."""

    GROUP: ClassVar[str] = "quota"

    driver: Annotated[
        str,
        Option(
            f"Source of quota limits: this cloud's database ({DB_QUOTAS}), none ({NO_QUOTAS}), Keystone "
            f"({UNIFIED_LIMITS}), or an external class: its dotted path, or an entry point of "
            "kilonova.quota.drivers.",
        ),
    ] = DB_QUOTAS
    instances: Annotated[int, _limit("instances")] = 10
    cores: Annotated[int, _limit("cores")] = 20
    ram: Annotated[int, _limit("ram")] = 50 * 1024
    metadata_items: Annotated[int, _limit("metadata_items")] = 128
    injected_files: Annotated[int, _limit("injected_files")] = 5
    injected_file_content_bytes: Annotated[int, _limit("injected_file_content_bytes")] = 10 * 1024
    injected_file_path_length: Annotated[int, _limit("injected_file_path_length")] = 255
    key_pairs: Annotated[int, _limit("key_pairs")] = 100
    server_groups: Annotated[int, _limit("server_groups")] = 10
    server_group_members: Annotated[int, _limit("server_group_members")] = 10

    def limits(self) -> Limits:
        """Return resource → default limit, for every resource."""
        known = {name: getattr(self, name) for name in NO_LIMITS if hasattr(self, name)}
        return {**NO_LIMITS, **known, "injected_file_path_bytes": self.injected_file_path_length}
