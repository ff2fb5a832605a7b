#!/usr/bin/env bash
# Puts nfs-ganesha on a Debian machine, for `make bench` alone. The package would start it as a service; that is
# prevented, and undone where it happened: the benchmark starts one of its own, on its own address.
set -euo pipefail

needed=(nfs-ganesha nfs-ganesha-vfs)

say() { printf 'setup-bench: %s\n' "$*"; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

missing=()
for package in "${needed[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

say "installing ${missing[*]}: the server that Heorot is measured beside; its service is not enabled"
if command -v systemctl >/dev/null; then
    as_root systemctl mask --quiet nfs-ganesha.service nfs-ganesha-lock.service 2>/dev/null || true
fi
as_root apt-get update -qq
as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
