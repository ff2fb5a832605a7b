#!/usr/bin/env bash
# setup-kernels.sh [--update] [KERNEL ...]: installs further kernels for the lab's client machines; without a name, all.
#
#   uml-trixie    Linux 6.12 as User Mode Linux, from Debian 13
#   uml-sid       the newest Linux that Debian has as User Mode Linux (7.2 in November 2026): sid moves
#   qemu-trixie   Linux 6.12 as Debian 13 has it for machines, in QEMU
#
# Each is unpacked into a folder of its own, `heorot/kernels/KERNEL` in the user's cache folder, or in $HEOROT_KERNELS.
# A kernel that is there stays as it is, unless --update is given. Packages come from the mirror that this machine's own apt
# configuration names, and are checked with its keys; apt's own lists and the list of installed packages stay as they are
# (but QEMU itself is installed, for qemu-trixie). Each takes a download of 40 to 130 MB, and 60 to 250 MB of disk.
set -euo pipefail

say() { printf 'setup-kernels: %s\n' "$*"; }
fail() { printf 'setup-kernels: %s\n' "$*" >&2; exit 1; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

kernels=${HEOROT_KERNELS:-${XDG_CACHE_HOME:-$HOME/.cache}/heorot/kernels}
update=
[ "${1:-}" != --update ] || { update=1; shift; }
[ $# -gt 0 ] || set -- uml-trixie uml-sid qemu-trixie

[ "$(uname -m)" = x86_64 ] || fail "these kernels are for x86-64 machines, and this one is $(uname -m)"
for program in apt-get dpkg-deb perl flock; do
    command -v "$program" >/dev/null || fail "$program is missing: this script needs a Debian machine"
done
mkdir -p "$kernels"
exec 9>"$kernels/.lock"
flock 9 # another run of this script ends first

# The address of the mirror from which this machine has its own Debian.
mirror() {
    local codename
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $codename" 'Component: main' |
        sort | uniq -c | sort -rn | awk 'NR == 1 {print $2}'
}

# Prepares an apt for one suite that keeps all its state in the folder $1.
private_apt() {
    local state=$1 suite=$2 from
    from=$(mirror)
    [ -n "$from" ] || fail "this machine's apt configuration names no mirror of its own Debian: run apt-get update"
    mkdir -p "$state"/lists/partial "$state"/archives/partial
    : >"$state/status"
    echo "deb $from $suite main" >"$state/sources.list"
    cat >"$state/apt.conf" <<CONF
Dir::State "$state";
Dir::State::lists "$state/lists";
Dir::State::status "$state/status";
Dir::Cache "$state";
Dir::Cache::archives "$state/archives";
Dir::Etc::sourcelist "$state/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Sandbox::User "";
APT::Install-Recommends "false";
Acquire::Languages "none";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
CONF
    export APT_CONFIG=$state/apt.conf
    apt-get -qq update
}

# Unpacks into $2 the User Mode Linux of a suite, with the libraries that it is linked to.
uml() {
    local state=$1 into=$2 package
    # With an empty list of installed packages all libraries are among what it needs.
    apt-get -qq -y --download-only install user-mode-linux >/dev/null
    for package in "$state"/archives/*.deb; do
        case ${package##*/} in
            user-mode-linux_*) dpkg-deb -f "$package" Package Version >"$into/package" ;;&
            user-mode-linux_* | lib*) dpkg-deb -x "$package" "$into" ;;
        esac
    done
    rm -rf "$into/usr/share"
    # The kernel starts its own program file again, so that it cannot be started through the loader. Its program file
    # names the loader instead by a path that is relative to the folder in which it is started.
    ln -s usr/lib/x86_64-linux-gnu "$into/lib"
    perl -0pi -e 's,/lib64(/ld-linux-x86-64\.so\.2)\0,lib$1\0\0\0\0,' "$into/usr/bin/linux.uml"
    ln -s usr/lib/uml/modules "$into/modules"
    local run=(env -C "$into" LD_LIBRARY_PATH=lib usr/bin/linux.uml)
    "${run[@]}" --version >"$into/release"
    "${run[@]}" --showconfig >"$into/config"
}

# Unpacks into $2 the kernel of a suite for machines, with an initramfs that mounts the host's file system. (Debian's smaller
# kernel for virtual machines has no 9p, by which the host's file system comes.)
qemu() {
    local state=$1 into=$2 package release module
    package=$(apt-cache show linux-image-amd64 | sed -n 's/^Depends: \(linux-image-[^ ,]*\).*/\1/p' | head -n 1)
    [ -n "$package" ] || fail "linux-image-amd64 names no kernel"
    (cd "$state/archives" && apt-get -qq download "$package" busybox-static)
    for package in "$state"/archives/linux-image-*.deb; do
        dpkg-deb -f "$package" Package Version >"$into/package"
        dpkg-deb -x "$package" "$into/image"
    done
    dpkg-deb -x "$state"/archives/busybox-static_*.deb "$state/busybox"
    release=$(cd "$into"/image/*/lib/modules 2>/dev/null || cd "$into"/image/lib/modules; ls)
    echo "$release" >"$into/release"
    mv "$into/image/boot/vmlinuz-$release" "$into/vmlinuz"
    mv "$into/image/boot/config-$release" "$into/config"
    if [ -d "$into/image/usr/lib/modules" ]; then
        mv "$into/image/usr/lib/modules" "$into/modules"
    else
        mv "$into/image/lib/modules" "$into/modules"
    fi
    rm -rf "$into/image"
    # A package has no index of its modules.
    mkdir "$state/root" && mkdir "$state/root/lib" && ln -s "$into/modules" "$state/root/lib/modules"
    /sbin/depmod -b "$state/root" "$release"

    local ram=$state/initramfs busybox=$state/busybox/bin/busybox
    [ -e "$busybox" ] || busybox=$state/busybox/usr/bin/busybox
    mkdir -p "$ram"/bin "$ram"/modules "$ram"/proc "$ram"/dev "$ram"/host
    cp "$busybox" "$ram/bin/busybox"
    cp "$(dirname "$0")/initramfs.sh" "$ram/init"
    chmod 755 "$ram/init"
    for module in virtio_pci virtio_net 9pnet_virtio 9p; do
        /sbin/modprobe -d "$state/root" -S "$release" --show-depends "$module"
    done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' | while read -r module; do
        case $module in
            *.xz) xz -dc "$module" >"$ram/modules/$(basename "$module" .xz)"; module=${module%.xz} ;;
            *.zst) zstd -dcq "$module" >"$ram/modules/$(basename "$module" .zst)"; module=${module%.zst} ;;
            *) cp "$module" "$ram/modules/" ;;
        esac
        basename "$module" >>"$ram/modules/order"
    done
    (cd "$ram" && find . | "$busybox" cpio -o -H newc 2>/dev/null) | gzip >"$into/initramfs"
}

# Installs QEMU itself.
qemu_program() {
    command -v qemu-system-x86_64 >/dev/null && return
    say "installing qemu-system-x86: the virtual machine for kernels that do not run as a process"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends qemu-system-x86 seabios ipxe-qemu >/dev/null
}

# Prints the accelerator with which QEMU runs the kernel in $1 on this machine: kvm where that works, not only where
# /dev/kvm is (a virtual machine's host may offer one that runs no usual kernel), else tcg.
accelerator() {
    local said pid
    if [ -r /dev/kvm ] && [ -w /dev/kvm ]; then
        said=$(mktemp)
        timeout 60 qemu-system-x86_64 -no-user-config -nodefaults -display none -no-reboot -accel kvm -cpu max -m 512M \
            -serial stdio -kernel "$1/vmlinuz" -initrd "$1/initramfs" -append 'console=ttyS0 panic=-1 quiet trial' \
            </dev/null >"$said" 2>&1 &
        pid=$!
        # QEMU stops a machine that KVM cannot run, and does not end.
        until grep -q 'trial passed\|internal error' "$said" || ! kill -0 $pid 2>/dev/null; do sleep 0.1; done
        kill $pid 2>/dev/null || true
        wait $pid 2>/dev/null || true
        if grep -q 'trial passed' "$said"; then rm "$said"; echo kvm; return; fi
        rm "$said"
    fi
    echo tcg
}

for kernel; do
    case $kernel in
        uml-trixie | uml-sid | qemu-trixie) ;;
        *) fail "no kernel is called $kernel: there are uml-trixie, uml-sid and qemu-trixie" ;;
    esac
    kind=${kernel%%-*} suite=${kernel#*-}
    [ "$kind" != qemu ] || qemu_program
    if [ -n "$update" ] || [ ! -e "$kernels/$kernel/release" ]; then
        new=$(mktemp -d "$kernels/.new.XXXXXX")
        state=$(mktemp -d "$kernels/.apt.XXXXXX")
        trap 'rm -rf "$new" "$state"' EXIT
        chmod 755 "$new"
        (
            private_apt "$state" "$suite"
            "$kind" "$state" "$new"
        )
        rm -rf "${kernels:?}/$kernel" "$state"
        mv "$new" "$kernels/$kernel"
    fi
    with=
    if [ "$kind" = qemu ]; then
        accelerator "$kernels/$kernel" >"$kernels/$kernel/accelerator"
        with=" with $(cat "$kernels/$kernel/accelerator")"
    fi
    say "$kernel: Linux $(cat "$kernels/$kernel/release")$with in $kernels/$kernel"
done
