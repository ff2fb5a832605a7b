#!/bin/sh
# Sourced by dracut while it reads the kernel's command line: whether the root is Heorot's.

if grep -q 'heorot\.root=' /proc/cmdline; then
    # /sbin/netroot starts /sbin/heorotroot when a network card is up.
    # shellcheck disable=SC2034
    netroot=heorot:root root=heorot rootok=1
    # shellcheck disable=SC2016,SC2154
    echo '[ -e $NEWROOT/proc ]' >"$hookdir/initqueue/finished/heorot.sh"
fi
