#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Install Open vSwitch and OVN from Debian, for networks of real guests (`kilonova up --hypervisor libvirt --networks`), and
# ping and ssh, with which users reach them.
# Starts no service. Does nothing if all is installed. With --names it only prints the missing packages.
set -euo pipefail
cd "$(dirname "$0")/.."

has() { command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ]; } # PATH of a user may lack /usr/sbin

missing=()
has ip || missing+=(iproute2)
has ethtool || missing+=(ethtool)
has nft || missing+=(nftables)
has ssh || missing+=(openssh-client)
has ping || missing+=(iputils-ping)
has ovs-vswitchd || missing+=(openvswitch-switch)
has ovn-northd || missing+=(ovn-central)
has ovn-controller || missing+=(ovn-host)
if [ "${1:-}" = --names ]; then printf '%s\n' "${missing[@]}" && exit 0; fi
if [ "${#missing[@]}" -gt 0 ]; then tools/debian_packages.sh ovn 'about half a minute' "${missing[@]}"; fi
