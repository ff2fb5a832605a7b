#!/usr/bin/env bash
# Puts PostgreSQL on a Debian machine, for `make postgres` alone: the test's client machines run it from this machine's root
# file system. The package would make a database and start it as a service; both are prevented.
set -euo pipefail

say() { printf 'setup-postgres: %s\n' "$*"; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

[ "$(dpkg-query -W -f='${db:Status-Status}' postgresql 2>/dev/null)" != installed ] || exit 0

say "installing postgresql, whose data directory a test puts on Heorot; no service is enabled"
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    as_root mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
fi
if command -v systemctl >/dev/null; then
    as_root systemctl mask --quiet postgresql.service 2>/dev/null || true
fi
as_root apt-get update -qq
as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
    apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold postgresql >/dev/null
