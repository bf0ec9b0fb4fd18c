#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Install the requirements of a libvirt host: QEMU, libvirt, firmware and a software TPM from Debian, and libvirt-python
# from requirements-libvirt.lock into .venv (created by tools/setup.sh). Starts no service. Does nothing if all is installed.
# With --names it only prints the missing packages; this works without a .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

exec 9<requirements.lock
[ "${1:-}" = --names ] || flock 9 # as in tools/setup.sh: concurrent runs would corrupt .venv
say() { printf 'hypervisor: %s\n' "$*"; }
fail() { printf 'hypervisor: %s\n' "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ]; } # PATH of a user may lack /usr/sbin

missing=()
has libvirtd || missing+=(libvirt-daemon)
compgen -G '/usr/lib*/libvirt/connection-driver/libvirt_driver_qemu.so' >/dev/null ||
    compgen -G '/usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so' >/dev/null || missing+=(libvirt-daemon-driver-qemu)
has virsh || missing+=(libvirt-clients)
has qemu-system-x86_64 || missing+=(qemu-system-x86)
has qemu-img || missing+=(qemu-utils)
compgen -G '/usr/share/OVMF/OVMF_CODE*.fd' >/dev/null || compgen -G '/usr/share/edk2/*/OVMF_CODE*' >/dev/null || missing+=(ovmf)
has mkfs.vfat || missing+=(dosfstools) # the default file system of ephemeral disks
has mkfs.ext4 || missing+=(e2fsprogs)
has swtpm || missing+=(swtpm)
has swtpm_setup || missing+=(swtpm-tools)

stamp=.venv/.stamp-libvirt wanted=$(sha256sum <requirements-libvirt.lock)
is_bound() { [ -f "$stamp" ] && [ "$(<"$stamp")" = "$wanted" ] && .venv/bin/python -c 'import libvirt' 2>/dev/null; }
if ! is_bound; then # libvirt-python must be compiled
    has pkg-config || missing+=(pkg-config)
    pkg-config --exists libvirt 2>/dev/null || missing+=(libvirt-dev)
    has gcc || missing+=(gcc)
    [ -e /usr/include/stdio.h ] || missing+=(libc6-dev)
    python=.venv/bin/python
    [ -x "$python" ] || python=${PYTHON:-python3}
    headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    [ -e "$headers/Python.h" ] || missing+=("$(basename "$headers" | tr -d m)-dev")
fi
if [ "${1:-}" = --names ]; then printf '%s\n' "${missing[@]}" && exit 0; fi
if [ "${#missing[@]}" -gt 0 ]; then tools/debian_packages.sh hypervisor 'about a minute' "${missing[@]}"; fi
if is_bound; then exit 0; fi

say "compiling $(<requirements-libvirt.lock) (about ten seconds)"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
awk 'NR == FNR { wanted[$1]; next } /^[^ #]/ { keep = ($1 in wanted) } keep' requirements-libvirt.lock requirements.hashes >.venv/libvirt.txt
log=.venv/libvirt.log
if ! .venv/bin/python -m pip install --no-deps --no-build-isolation --retries 5 --require-hashes -r .venv/libvirt.txt >"$log" 2>&1 </dev/null; then
    tail -n 15 "$log" >&2
    fail "pip failed; see the log $log"
fi
printf '%s' "$wanted" >"$stamp"
say "done"
