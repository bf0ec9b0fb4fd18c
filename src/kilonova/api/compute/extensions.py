# SPDX-License-Identifier: Apache-2.0
"""Names of the former extensions of the compute API, which old clients still read. All are now part of the API."""

from typing import Any

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.policy import ANYONE, rule
from kilonova.api.schemas import queries
from kilonova.errors import NotFound

_ALL, _ONE = "/extensions", "/extensions/{alias}"
_RULE = "os_compute_api:extensions"
RULES = (rule(_RULE, ANYONE, "List the former extensions of the API", ("GET", _ALL), ("GET", _ONE)),)

#: Alias and name of each extension.
_NAMES = """
    NMN Multinic
    OS-DCF DiskConfig
    OS-EXT-AZ ExtendedAvailabilityZone
    OS-EXT-IMG-SIZE ImageSize
    OS-EXT-IPS ExtendedIps
    OS-EXT-IPS-MAC ExtendedIpsMac
    OS-EXT-SRV-ATTR ExtendedServerAttributes
    OS-EXT-STS ExtendedStatus
    OS-FLV-DISABLED FlavorDisabled
    OS-FLV-EXT-DATA FlavorExtraData
    OS-SCH-HNT SchedulerHints
    OS-SRV-USG ServerUsage
    os-access-ips AccessIPs
    os-admin-actions AdminActions
    os-admin-password AdminPassword
    os-agents Agents
    os-aggregates Aggregates
    os-assisted-volume-snapshots AssistedVolumeSnapshots
    os-attach-interfaces AttachInterfaces
    os-availability-zone AvailabilityZone
    os-baremetal-ext-status BareMetalExtStatus
    os-baremetal-nodes BareMetalNodes
    os-block-device-mapping BlockDeviceMapping
    os-block-device-mapping-v2-boot BlockDeviceMappingV2Boot
    os-cell-capacities CellCapacities
    os-cells Cells
    os-certificates Certificates
    os-cloudpipe Cloudpipe
    os-cloudpipe-update CloudpipeUpdate
    os-config-drive ConfigDrive
    os-console-auth-tokens ConsoleAuthTokens
    os-console-output ConsoleOutput
    os-consoles Consoles
    os-create-backup CreateBackup
    os-create-server-ext Createserverext
    os-deferred-delete DeferredDelete
    os-evacuate Evacuate
    os-extended-evacuate-find-host ExtendedEvacuateFindHost
    os-extended-floating-ips ExtendedFloatingIps
    os-extended-hypervisors ExtendedHypervisors
    os-extended-networks ExtendedNetworks
    os-extended-quotas ExtendedQuotas
    os-extended-rescue-with-image ExtendedRescueWithImage
    os-extended-services ExtendedServices
    os-extended-services-delete ExtendedServicesDelete
    os-extended-status ExtendedStatus
    os-extended-volumes ExtendedVolumes
    os-fixed-ips FixedIPs
    os-flavor-access FlavorAccess
    os-flavor-extra-specs FlavorExtraSpecs
    os-flavor-manage FlavorManage
    os-flavor-rxtx FlavorRxtx
    os-flavor-swap FlavorSwap
    os-floating-ip-dns FloatingIpDns
    os-floating-ip-pools FloatingIpPools
    os-floating-ips FloatingIps
    os-floating-ips-bulk FloatingIpsBulk
    os-fping Fping
    os-hide-server-addresses HideServerAddresses
    os-hosts Hosts
    os-hypervisor-status HypervisorStatus
    os-hypervisors Hypervisors
    os-instance-actions InstanceActions
    os-instance_usage_audit_log OSInstanceUsageAuditLog
    os-keypairs Keypairs
    os-lock-server LockServer
    os-migrate-server MigrateServer
    os-migrations Migrations
    os-multiple-create MultipleCreate
    os-networks Networks
    os-networks-associate NetworkAssociationSupport
    os-pause-server PauseServer
    os-personality Personality
    os-preserve-ephemeral-rebuild PreserveEphemeralOnRebuild
    os-quota-class-sets QuotaClasses
    os-quota-sets Quotas
    os-rescue Rescue
    os-security-group-default-rules SecurityGroupDefaultRules
    os-security-groups SecurityGroups
    os-server-diagnostics ServerDiagnostics
    os-server-external-events ServerExternalEvents
    os-server-group-quotas ServerGroupQuotas
    os-server-groups ServerGroups
    os-server-list-multi-status ServerListMultiStatus
    os-server-password ServerPassword
    os-server-sort-keys ServerSortKeys
    os-server-start-stop ServerStartStop
    os-services Services
    os-shelve Shelve
    os-simple-tenant-usage SimpleTenantUsage
    os-suspend-server SuspendServer
    os-tenant-networks OSTenantNetworks
    os-used-limits UsedLimits
    os-used-limits-for-admin UsedLimitsForAdmin
    os-user-data UserData
    os-user-quotas UserQuotas
    os-virtual-interfaces VirtualInterfaces
    os-volume-attachment-update VolumeAttachmentUpdate
    os-volumes Volumes
"""
_ALIASES = dict(line.split() for line in _NAMES.splitlines() if line)


def list_extensions(ctx: Context, request: Request) -> Reply:
    """GET /extensions."""
    del request
    ctx.authorize(_RULE)
    return Reply(200, {"extensions": [_view(alias) for alias in _ALIASES]})


def show_extension(ctx: Context, request: Request) -> Reply:
    """GET /extensions/{alias}.  Errors: 404."""
    ctx.authorize(_RULE)
    alias = request.path["alias"]
    if alias not in _ALIASES:
        raise NotFound(f"There is no extension {alias}.")
    return Reply(200, {"extension": _view(alias)})


def _view(alias: str) -> dict[str, Any]:
    return {
        "alias": alias,
        "name": _ALIASES[alias],
        "description": "Part of the compute API at every microversion.",
        "links": [],
        # as in Nova, which has returned this namespace for every extension since the removal of its XML API
        "namespace": "http://docs.openstack.org/compute/ext/fake_xml",
        "updated": "2014-12-03T00:00:00Z",
    }


ROUTES: Routes = {
    _ALL: {"GET": Endpoint(list_extensions, query=queries.NONE)},
    _ONE: {"GET": Endpoint(show_extension, query=queries.NONE)},
}
