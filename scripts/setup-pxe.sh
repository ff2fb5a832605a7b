#!/usr/bin/env bash
# Puts on a Debian machine what `make pxe` needs: QEMU with firmware for BIOS and UEFI, iPXE, dnsmasq; and a kernel of Debian
# for virtual machines, unpacked into `heorot/kernels/pxe` in the user's cache folder, or in $HEOROT_KERNELS.
set -euo pipefail

say() { printf 'setup-pxe: %s\n' "$*"; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

missing=()
for package in qemu-system-x86 ipxe-qemu ipxe ovmf dnsmasq-base; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    say "installing ${missing[*]}"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

into=${HEOROT_KERNELS:-${XDG_CACHE_HOME:-$HOME/.cache}/heorot/kernels}/pxe
[ ! -e "$into/release" ] || exit 0
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
say "unpacking $package"
(cd "$state" && apt-get -qq download "$package" 2>/dev/null)
dpkg-deb -x "$state/$package"_*.deb "$state/image"
release=$(ls "$state/image/lib/modules")
rm -rf "$into" && mkdir -p "$into"
mv "$state/image/lib/modules" "$into/modules"
mv "$state/image/boot/vmlinuz-$release" "$into/vmlinuz"
mv "$state/image/boot/config-$release" "$into/config"
# A package has no index of its modules.
mkdir -p "$state/root/lib" && ln -s "$into/modules" "$state/root/lib/modules"
/sbin/depmod -b "$state/root" "$release"
# KVM inside some virtual machines cannot run firmware: what can is found out by doing it.
accelerator=tcg,thread=multi
if [ -w /dev/kvm ] && timeout 60 qemu-system-x86_64 -no-user-config -nodefaults -display none -no-reboot -accel kvm -cpu qemu64 \
    -m 512 -serial stdio -kernel "$into/vmlinuz" -append 'console=ttyS0 panic=-1' </dev/null 2>&1 | grep -q 'Kernel panic'; then
    accelerator=kvm
fi
echo "$accelerator" >"$into/accelerator"
echo "$release" >"$into/release"
