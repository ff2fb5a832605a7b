#!/usr/bin/env bash
# Puts on a Debian machine what building and testing Heorot needs beside a Rust toolchain. Says what and why first,
# changes nothing that is already in place, and can be run again at any time. With the argument `demo`: without what only
# tests need.
set -euo pipefail

# package:why
needed=(
    "build-essential:cc, c++ and make: Rust links with cc, the fuzzer is C++, and the tests compile C on Heorot"
    "user-mode-linux:a real Linux 6.1 kernel as a process: the client machines of the tests"
    "iproute2:ip and tc: the network between the tests' client machines and the servers, and the speed of its links"
    "kmod:modprobe: loads the NFS client's modules inside the client machines"
    "nfs-common:mount.nfs, for the client machines"
    "util-linux:chrt, flock, setpriv, nsenter: tests at idle times, locks between clients, no process outlives its test, namespaces"
    "iputils-ping:ping: the tests check their network before they blame a server"
)
for_tests=(
    "attr:setfattr and getfattr: extended attributes in the client machines"
    "e2fsprogs:mkfs.ext4: a file system that turns read-only at an error, as the disk of a data server"
    "xfsprogs:mkfs.xfs: a file system that can share data between files, to test reflinks on"
    "faketime:libfaketime, a clock that goes wrong under one server of a test"
    "initramfs-tools-core:mkinitramfs: the initramfs of machines without a disk"
    "dracut-core:dracut: another initramfs of such machines"
    "dracut-network:the network in the initramfs of dracut"
    "busybox-static:busybox: programs of such a machine, and of its initramfs"
    "tcc:a compiler for such a machine, small enough for a test"
    "systemd:systemd-analyze: judges how much the example of a unit may do"
)
[ "${1:-}" = demo ] || needed+=("${for_tests[@]}")

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "not root, and there is no sudo: run this as root"
fi
command -v cargo >/dev/null || fail "cargo is missing: install a Rust toolchain first, see https://rustup.rs"
rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
have=$(rustc --version | cut -d" " -f2)
[ "$(printf '%s\n' "$rust" "$have" | sort -V | head -1)" = "$rust" ] ||
    fail "rustc is $have, and Heorot needs $rust or later: see https://rustup.rs"

missing=()
for entry in "${needed[@]}"; do
    package=${entry%%:*}
    if [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
        [ ${#missing[@]} -gt 0 ] || say "these Debian packages are missing and will now be installed:"
        say "  $package (${entry#*:})"
        missing+=("$package")
    fi
done
if [ ${#missing[@]} -gt 0 ]; then
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# The client machines use the host's root file system, and mount the modules of their kernels there.
if [ ! -d /lib/modules ]; then
    say "making /lib/modules, where the client machines mount the modules of their kernels"
    as_root mkdir -p /lib/modules
fi

if [ ! -c /dev/net/tun ]; then
    say "making /dev/net/tun, through which the client machines reach the network"
    as_root modprobe tun 2>/dev/null || true
    as_root mkdir -p /dev/net
    [ -c /dev/net/tun ] || as_root mknod /dev/net/tun c 10 200
fi
as_root sh -c ': <>/dev/net/tun' 2>/dev/null ||
    fail "/dev/net/tun cannot be opened: the kernel needs CONFIG_TUN (in a container: --device /dev/net/tun --cap-add NET_ADMIN)"

if [ "${1:-}" = demo ]; then
    say "everything that the demo needs is here"
    exit 0
fi

# A POSIX file system suite of others, which the tests run inside the client machines.
tools=$(cd "$(dirname "$0")/.." && pwd)/target/tools
pjdfstest=0.2.2
if [ "$("$tools/bin/pjdfstest" --version 2>/dev/null)" != "pjdfstest $pjdfstest" ]; then
    say "building pjdfstest $pjdfstest (a POSIX file system test suite) into target/tools"
    cargo install --quiet --locked --root "$tools" --version "=$pjdfstest" pjdfstest
fi

say "everything that is needed is here"
