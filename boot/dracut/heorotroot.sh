#!/bin/sh
# Started by dracut as `heorotroot DEVICE NETROOT PLACE` when this network card is up.

command -v getarg >/dev/null || . /lib/dracut-lib.sh
. /lib/heorot-root.sh

heorot_fail()
{
    die "heorot: $*"
}

# The name that DHCP or the word ip= has: that of the kernel may be the initramfs's.
heorot_hostname=
[ ! -e "/tmp/net.$1.hostname" ] || heorot_hostname=$(sed -n 's/^echo \([^ ]*\) .*/\1/p' "/tmp/net.$1.hostname")
[ -e "$3/proc" ] || heorot_mount_root "$3" "$heorot_hostname" "$1"
