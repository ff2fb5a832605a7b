#!/bin/bash
# Module of dracut: the root is a directory of Heorot, by NFSv4.2, if the kernel's command line has the word heorot.root=
# (../root.sh). It is in the initramfs if it is asked for: `boot/install` does that, and puts it into an image.

check() {
    require_binaries mount.nfs modprobe || return 1
    # Only where it is asked for.
    return 255
}

depends() {
    echo base network
}

installkernel() {
    # Any machine may boot this.
    hostonly='' instmods nfs nfsv4 nfs_layout_nfsv41_files overlay '=drivers/net/ethernet' virtio_net
}

install() {
    inst_multiple mount umount mount.nfs modprobe cat grep sed tr mkdir cp mv rm sleep
    # libtirpc looks for transports there.
    inst_multiple -o /etc/netconfig
    # shellcheck disable=SC2154
    inst_simple "$moddir/root.sh" /lib/heorot-root.sh
    inst_hook cmdline 90 "$moddir/parse-heorot.sh"
    inst_script "$moddir/heorotroot.sh" /sbin/heorotroot
    dracut_need_initqueue
}
