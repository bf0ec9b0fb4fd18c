#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build .network-guest/guest.qcow2: a small Linux guest for clouds with networks, from packages of Debian (about 18 MB, half a
# minute). It gets its addresses by DHCP, DHCPv6 and router advertisements, its SSH key and user data from the metadata service
# or the config drive, and serves SSH and HTTP. Does nothing if the image is up to date. Installs no package: it unpacks them.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=.network-guest
image=$folder/guest.qcow2

exec 9<"$0"
flock 9
wanted=$(cat "$0" tools/network_guest/* | sha256sum)
if [ -f "$image" ] && [ "$(cat "$folder/.stamp" 2>/dev/null)" = "$wanted" ]; then exit 0; fi
say() { printf 'network guest: %s\n' "$*"; }
fail() { printf 'network guest: %s\n' "$*" >&2; exit 1; }
command -v apt-get >/dev/null || fail 'Debian packages are needed, and there is no apt-get'
for program in mkfs.vfat mkfs.ext4 qemu-img python3; do
    command -v "$program" >/dev/null || [ -x "/usr/sbin/$program" ] || fail "$program is missing; tools/hypervisor.sh installs it"
done
export PATH=$PATH:/usr/sbin:/sbin

rm -rf "$folder"
mkdir -p "$folder"/{packages,tree,root}
newest_kernel() { apt-cache depends --important linux-image-cloud-amd64 2>/dev/null | awk '/Depends: linux-image/ { print $2; exit }'; }
kernel=$(newest_kernel)
if [ -z "$kernel" ] && [ "$(id -u)" -eq 0 ]; then apt-get -q -o DPkg::Lock::Timeout=300 update >/dev/null && kernel=$(newest_kernel); fi
[ -n "$kernel" ] || fail 'apt-get knows no kernel (linux-image-cloud-amd64); type: apt-get update'
say 'fetching a kernel, busybox, dropbear and programs that write boot sectors'
(cd "$folder/packages" && apt-get -q download "$kernel" busybox-static dropbear-bin libtomcrypt1 libtommath1 libgmp10 zlib1g \
    libcrypt1 libc6 wide-dhcpv6-client libfl2 cpio mtools syslinux syslinux-common >fetch.log 2>&1) || { tail -n 5 "$folder/packages/fetch.log" >&2; fail 'apt-get failed'; }
for package in "$folder"/packages/*.deb; do dpkg-deb -x "$package" "$folder/tree"; done
tree=$PWD/$folder/tree root=$folder/root
export PATH=$tree/usr/bin:$tree/bin:$PATH

say 'writing the image'
mkdir -p "$root"/{bin,dev,etc/acpi/PWRF,etc/dropbear,lib64,lib/modules,lib/x86_64-linux-gnu,mnt,proc,root/.ssh,run,sys,tmp,var/log,www/cgi-bin}
cp "$tree/bin/busybox" "$tree/usr/sbin/dropbear" "$tree/usr/bin/dropbearkey" "$tree/usr/bin/dbclient" "$tree/usr/sbin/dhcp6c" "$root/bin/"
ln -s dbclient "$root/bin/ssh"
for library in libfl.so.2 libtomcrypt.so.1 libtommath.so.1 libgmp.so.10 libz.so.1 libcrypt.so.1 libc.so.6 libm.so.6; do
    cp -L "$(find "$tree" -name "$library" | head -n 1)" "$root/lib/x86_64-linux-gnu/"
done
cp -L "$(find "$tree" -name 'ld-linux-x86-64.so.2' | head -n 1)" "$root/lib64/"
cp tools/network_guest/{init,boot,udhcpc-event,once,userdata,curl,sudo,lsblk,blkid} "$root/bin/"
cp tools/network_guest/reach "$root/www/cgi-bin/"
printf '#!/bin/sh\nsync; mount -o remount,ro /; poweroff -f\n' >"$root/etc/acpi/PWRF/00000080"
printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\n' >"$root/etc/group"
printf '/bin/sh\n' >"$root/etc/shells"
printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
chmod 755 "$root"/bin/* "$root/www/cgi-bin/reach" "$root/etc/acpi/PWRF/00000080"
chmod 700 "$root/root" "$root/root/.ssh"
ln -s bin/init "$root/init"
for module in $(<tools/network_guest/modules); do
    found=$(find "$tree" -name "$module.ko*" | head -n 1)
    [ -z "$found" ] || cp "$found" "$root/lib/modules/"
done
cp tools/network_guest/modules "$root/lib/modules/order"
(cd "$root" && find . | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0 | gzip -9n) >"$folder/initrd.gz"

raw=$folder/guest.raw
truncate -s 96M "$raw"
# a partition table: an active FAT partition from 1 MiB on, with the kernel; a Linux partition from 40 MiB on, still empty
python3 - "$raw" "$(find "$tree" -name mbr.bin -path '*/mbr/*' | head -n 1)" <<'PYTHON'
import struct, sys
code = open(sys.argv[2], "rb").read()[:440]
far = b"\xfe\xff\xff"
boot = struct.pack("<B3sB3sII", 0x80, far, 0x0E, far, 2048, 79872)
root = struct.pack("<B3sB3sII", 0, far, 0x83, far, 81920, 114688)
with open(sys.argv[1], "r+b") as disk:
    disk.write(code.ljust(446, b"\0") + boot + root)
    disk.seek(510)
    disk.write(b"\x55\xaa")
PYTHON
mkfs.ext4 -q -F -L guest -m 0 -E offset=$((81920 * 512)),lazy_itable_init=0 "$raw" 57344k
mkfs.vfat --offset 2048 -n BOOT "$raw" 39936 >/dev/null 2>&1
cp "$(find "$tree/boot" -name 'vmlinuz-*' | head -n 1)" "$folder/vmlinuz"
cp tools/network_guest/syslinux.cfg "$folder/"
export MTOOLS_SKIP_CHECK=1
mcopy -i "$raw@@1M" "$folder/vmlinuz" "$folder/initrd.gz" "$folder/syslinux.cfg" ::/
syslinux --install -t $((2048 * 512)) "$raw"
qemu-img convert -q -O qcow2 -c "$raw" "$image"
rm -rf "$folder"/{packages,tree,root,guest.raw,initrd.gz,vmlinuz,syslinux.cfg}
printf '%s' "$wanted" >"$folder/.stamp"
say "done: $image"
