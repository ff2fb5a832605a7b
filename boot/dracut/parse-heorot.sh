#!/bin/sh
# Sourced by dracut while it reads the kernel's command line: whether the root is Heorot's.

command -v getarg >/dev/null || . /lib/dracut-lib.sh

if heorot_root=$(getarg heorot.root=); then
    # /sbin/netroot starts /sbin/heorotroot when a network card is up.
    # shellcheck disable=SC2034
    netroot=heorot:$heorot_root root=heorot rootok=1
    # shellcheck disable=SC2016,SC2154
    echo '[ -e $NEWROOT/proc ]' >"$hookdir/initqueue/finished/heorot.sh"
fi
