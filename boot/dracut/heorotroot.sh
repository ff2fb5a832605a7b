#!/bin/sh
# Started by dracut as `heorotroot DEVICE NETROOT PLACE` when this network card is up.

command -v getarg >/dev/null || . /lib/dracut-lib.sh
. /lib/heorot-root.sh

heorot_fail()
{
    die "heorot: $*"
}

[ -e "$3/proc" ] || heorot_mount_root "$3" "$(cat /proc/sys/kernel/hostname)" "$1"
