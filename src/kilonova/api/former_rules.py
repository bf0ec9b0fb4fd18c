# SPDX-License-Identifier: Apache-2.0
"""Deprecated names and defaults of policy rules, for policy files that still use them.

If Nova split a rule into several, its old name in a policy file sets all of them, except those that the file also sets
by their present names. With ``[oslo_policy] enforce_new_defaults = false``, a rule also allows every request that its
deprecated default allows.
"""

from collections.abc import Iterator, Mapping

from oslo_policy import policy

from kilonova.records import dataclass

_PROJECT = "rule:admin_or_owner"
_ADMIN = "rule:admin_api"
_NOW_MANAGERS = "rule:context_is_admin"
_REASON = "Roles of projects and rules for each operation have replaced it."


@dataclass(frozen=True, slots=True)
class FormerRule:
    """The deprecated name and default of a rule. ``since``: the Nova release that deprecated them."""

    name: str
    check: str
    since: str

    def as_policy(self) -> policy.DeprecatedRule:
        return policy.DeprecatedRule(
            name=self.name, check_str=self.check, deprecated_reason=_REASON, deprecated_since=self.since
        )


#: Rules that Nova split, without the prefix ``os_compute_api:``: deprecated name → its default, the release of the
#: split, and the suffixes that form the names of the new rules.
_SPLIT: Mapping[str, tuple[str, str, str]] = {
    "os-attach-interfaces": (_PROJECT, "21.0.0", "list show create delete"),
    "os-baremetal-nodes": (_ADMIN, "22.0.0", "list show"),
    "os-deferred-delete": (_PROJECT, "21.0.0", "restore force"),
    "os-floating-ips": (_PROJECT, "22.0.0", "add remove list create show delete"),
    "os-hosts": (_ADMIN, "22.0.0", "list show update reboot shutdown start"),
    "os-hypervisors": (_ADMIN, "21.0.0", "list list-detail statistics show uptime search servers"),
    "os-instance-actions": (_PROJECT, "21.0.0", "list show"),
    "os-instance-usage-audit-log": (_ADMIN, "21.0.0", "list show"),
    "os-migrate-server:migrate_live": (_NOW_MANAGERS, "32.0.0", "host"),
    "os-migrations:index": (_NOW_MANAGERS, "32.0.0", "all_projects host"),
    "os-multinic": (_PROJECT, "22.0.0", "add remove"),
    "os-security-groups": (
        _PROJECT,
        "22.0.0",
        "get show create update delete rule:create rule:delete list add remove",
    ),
    "os-server-password": (_PROJECT, "21.0.0", "show clear"),
    "os-services": (_ADMIN, "21.0.0", "list update delete"),
    "os-tenant-networks": (_PROJECT, "22.0.0", "list show"),
    "os-volumes": (
        _PROJECT,
        "22.0.0",
        (
            "list create detail show delete"
            " snapshots:list snapshots:create snapshots:detail snapshots:show snapshots:delete"
        ),
    ),
    "servers:migrations:index": (_NOW_MANAGERS, "32.0.0", "host"),
}
#: Rules that Nova renamed: present name → deprecated name, its default, and the release of the change. Rules whose
#: present name begins with the deprecated one are in ``_SPLIT``.
_RENAMED: Mapping[str, tuple[str, str, str]] = {
    "limits:other_project": ("os-used-limits", _ADMIN, "21.0.0"),
    "os-flavor-access": ("os-flavor-access", _PROJECT, "21.0.0"),
    "os-networks:list": ("os-networks:view", _PROJECT, "22.0.0"),
    "os-networks:show": ("os-networks:view", _PROJECT, "22.0.0"),
    "os-unrescue": ("os-rescue", _PROJECT, "21.0.0"),
    "servers:show:flavor-extra-specs": ("os-flavor-extra-specs:index", _PROJECT, "25.0.0"),
}
_PREFIX = "os_compute_api:"


def _former() -> Iterator[tuple[str, FormerRule]]:
    for name, (check, since, endings) in _SPLIT.items():
        for ending in endings.split():
            yield f"{_PREFIX}{name}:{ending}", FormerRule(_PREFIX + name, check, since)
    for name, (former, check, since) in _RENAMED.items():
        yield _PREFIX + name, FormerRule(_PREFIX + former, check, since)


#: Rules of Nova for features that Kilonova does not have. A policy file may set them without effect.
NOT_HERE = frozenset(
    {
        f"{_PREFIX}os-volumes-attachments:swap",
        f"{_PREFIX}servers:create:attach_volume",
        f"{_PREFIX}servers:create_image:allow_volume_backed",
        "compute:servers:resize:cross_cell",
    }
)

#: Present name of a rule → its deprecated name and default.
FORMER: Mapping[str, FormerRule] = dict(_former())

#: Default of Nova's rules before they used the roles "reader" and "member": any role in a project made a user an owner
#: of the project.
OWNER_BEFORE = FormerRule(_PROJECT, "is_admin:True or project_id:%(project_id)s", "21.0.0")
ADMIN_BEFORE = FormerRule(_ADMIN, "is_admin:True", "21.0.0")


def former_of(name: str) -> policy.DeprecatedRule | None:
    """Return the deprecated name and default of the rule ``name`` for oslo.policy, or None if it has none."""
    found = FORMER.get(name)
    return None if found is None else found.as_policy()
