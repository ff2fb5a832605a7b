#!/usr/bin/env bash
# Puts promtool, Prometheus's checker of alert rules, into target/tools, from Debian's package, which is not installed: that
# would start a server.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/target/tools
[ ! -x "$tools/promtool" ] || exit 0
printf 'setup: fetching Debian'\''s package prometheus for its promtool, into target/tools\n'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
(cd "$work" && { apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; })
dpkg-deb -x "$work"/prometheus_*.deb "$work/root"
mkdir -p "$tools"
cp "$work/root/usr/bin/promtool" "$tools/promtool"
