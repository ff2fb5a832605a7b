#!/usr/bin/env bash
# Puts fio on a Debian machine, for `make compare-fio` alone.
set -euo pipefail

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

command -v fio >/dev/null && exit 0
echo 'setup-fio: installing fio: the load generator that heorot bench is compared with'
as_root apt-get update -qq
as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends fio >/dev/null
