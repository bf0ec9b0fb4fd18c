# SPDX-License-Identifier: Apache-2.0
"""Names and defaults that rules of policy had before, for the policy files of operators that still use them.

A policy file that sets a former name sets all rules that it was split into, but those that the file sets by their own
names. With ``[oslo_policy] enforce_new_defaults = false`` the former default of a rule holds beside the present one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from oslo_policy import policy

_PROJECT = "rule:admin_or_owner"
_ADMIN = "rule:admin_api"
_NOW_MANAGERS = "rule:context_is_admin"
_REASON = "Roles of projects and rules for each operation have replaced it."


@dataclass(frozen=True, slots=True)
class FormerRule:
    """``since``: the release of Nova in which the name or the default was given up."""

    name: str
    check: str
    since: str

    def as_policy(self) -> policy.DeprecatedRule:
        return policy.DeprecatedRule(
            name=self.name, check_str=self.check, deprecated_reason=_REASON, deprecated_since=self.since
        )


#: Under ``os_compute_api:``: former name → its default, when it was split, and what now follows the same name.
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
#: Present name → former name, where the one does not begin with the other.
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


#: Rules of Nova for what there is not here: a policy file that sets them is no mistake.
NOT_HERE = frozenset(
    {
        *(
            _PREFIX + name
            for name in (
                *("os-baremetal-nodes:list", "os-baremetal-nodes:show", "extensions", "os-floating-ip-pools"),
                *("os-floating-ips:list", "os-floating-ips:create", "os-floating-ips:show", "os-floating-ips:delete"),
                *("os-hosts:list", "os-hosts:show", "os-hosts:update", "os-hosts:reboot", "os-hosts:shutdown"),
                *("os-hosts:start", "os-instance-usage-audit-log:list", "os-instance-usage-audit-log:show"),
                *("os-networks:list", "os-networks:show", "os-security-groups:get", "os-security-groups:show"),
                *("os-security-groups:create", "os-security-groups:update", "os-security-groups:delete"),
                *("os-security-groups:rule:create", "os-security-groups:rule:delete", "os-server-shares:index"),
                *("os-server-shares:create", "os-server-shares:show", "os-server-shares:delete"),
                *("servers:create:attach_volume", "servers:create:attach_network"),
                "servers:create_image:allow_volume_backed",
                *("os-simple-tenant-usage:show", "os-simple-tenant-usage:list", "os-tenant-networks:list"),
                *("os-tenant-networks:show", "os-volumes:list", "os-volumes:create", "os-volumes:detail"),
                *("os-volumes:show", "os-volumes:delete", "os-volumes:snapshots:list", "os-volumes:snapshots:create"),
                *("os-volumes:snapshots:detail", "os-volumes:snapshots:show", "os-volumes:snapshots:delete"),
                "os-volumes-attachments:swap",
            )
        ),
        "compute:servers:resize:cross_cell",
        "network:attach_external_network",
    }
)

#: Present name → what it was.
FORMER: Mapping[str, FormerRule] = dict(_former())

#: The defaults of before there were roles: whoever has any role in a project was its owner.
OWNER_BEFORE = FormerRule(_PROJECT, "is_admin:True or project_id:%(project_id)s", "21.0.0")
ADMIN_BEFORE = FormerRule(_ADMIN, "is_admin:True", "21.0.0")


def former_of(name: str) -> policy.DeprecatedRule | None:
    """Return what a rule was, as oslo.policy wants to know it; None for one that always was what it is."""
    found = FORMER.get(name)
    return None if found is None else found.as_policy()
