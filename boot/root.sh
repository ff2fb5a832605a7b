# The root of a machine without a disk is a directory of Heorot, by NFSv4.2: what the scripts of initramfs-tools and of dracut
# have in common. Words of the kernel's command line:
#
#   heorot.root=ADDRESS[,ADDRESS...]:/PATH   the root, read-only; the first address that answers is mounted
#   heorot.overlay=SIZE                      what the node writes is in its memory, up to SIZE, until it goes down
#   heorot.own=/PATH                         a directory of this node alone, on the same servers, to write to
#   heorot.own_dirs=/etc,/var                directories of the root that are in heorot.own; begun as copies (/etc,/var)
#   heorot.write                             the root is mounted to write: it is of this node, or of its group
#   heorot.node=NAME                         the name of this node [default: from DHCP, otherwise its MAC address]
#   heorot.options=OPTION[,OPTION...]        more options of the mount
#
# Addresses: service addresses, which move to a metaserver that lives.
# A script that reads this defines heorot_fail MESSAGE, which does not return.

heorot_words()
{
    HEOROT_ROOT= HEOROT_OVERLAY= HEOROT_OWN= HEOROT_OWN_DIRS=/etc,/var HEOROT_NODE= HEOROT_OPTIONS= HEOROT_MODE=ro
    for heorot_word in $(cat /proc/cmdline); do
        case "$heorot_word" in
        heorot.root=*) HEOROT_ROOT=${heorot_word#*=} ;;
        heorot.overlay=*) HEOROT_OVERLAY=${heorot_word#*=} ;;
        heorot.own=*) HEOROT_OWN=${heorot_word#*=} ;;
        heorot.own_dirs=*) HEOROT_OWN_DIRS=${heorot_word#*=} ;;
        heorot.node=*) HEOROT_NODE=${heorot_word#*=} ;;
        heorot.options=*) HEOROT_OPTIONS=,${heorot_word#*=} ;;
        heorot.write) HEOROT_MODE=rw ;;
        esac
    done
    HEOROT_PATH=${HEOROT_ROOT#*:}
    HEOROT_ADDRESSES=$(echo "${HEOROT_ROOT%%:*}" | tr ',' ' ')
    case "$HEOROT_ROOT" in
    *:/*) ;;
    *) heorot_fail "heorot.root=$HEOROT_ROOT is not ADDRESS[,ADDRESS...]:/PATH" ;;
    esac
}

# heorot_name NAME DEVICE: what DHCP has named, and the network card. A server tells clients apart by this name: nodes with
# one name would end each other's locks.
heorot_name()
{
    if [ -z "$HEOROT_NODE" ]; then
        HEOROT_NODE=$1
    fi
    case "$HEOROT_NODE" in
    # Names of machines that have none.
    '' | '(none)' | localhost*) HEOROT_NODE=$(cat /sys/class/net/"$2"/address) ;;
    esac
    echo "$HEOROT_NODE" >/proc/sys/kernel/hostname
    modprobe nfs nfs4_unique_id="$HEOROT_NODE" || heorot_fail "the kernel has no NFS client (modprobe nfs)"
    modprobe nfsv4
}

# heorot_mount MODE PATH PLACE: from the address that answers first. Metaservers may be down for now: a node that waits comes
# up with them.
heorot_mount()
{
    while :; do
        for heorot_address in $HEOROT_ADDRESSES; do
            if mount.nfs "$heorot_address:$2" "$3" -o "$1,vers=4.2,hard,retry=0$HEOROT_OPTIONS"; then
                return 0
            fi
        done
        echo "heorot: $2 cannot be mounted from $HEOROT_ADDRESSES yet, retrying"
        sleep 2
    done
}

# heorot_overlay IMAGE PLACE: the root is the image, and all that is written to it is in memory.
heorot_overlay()
{
    modprobe overlay || heorot_fail "the kernel has no overlay file system (modprobe overlay)"
    mkdir -p /run/heorot/memory
    mount -t tmpfs -o "size=$HEOROT_OVERLAY,mode=0755" heorot /run/heorot/memory
    mkdir /run/heorot/memory/upper /run/heorot/memory/work
    mount -t overlay -o "lowerdir=$1,upperdir=/run/heorot/memory/upper,workdir=/run/heorot/memory/work" \
        heorot "$2" || heorot_fail "no overlay over $HEOROT_PATH"
}

# heorot_own PLACE: directories of the root there that are this node's own. A copy is complete, or it is made again.
heorot_own()
{
    mkdir -p /run/heorot/own
    heorot_mount rw "$HEOROT_OWN" /run/heorot/own
    for heorot_dir in $(echo "$HEOROT_OWN_DIRS" | tr ',' ' '); do
        heorot_part=$(echo "$heorot_dir" | tr -d '/.')
        heorot_place=/run/heorot/own/$heorot_part
        if [ ! -d "$heorot_place" ]; then
            rm -rf "$heorot_place.new"
            cp -a "$1$heorot_dir" "$heorot_place.new" && mv "$heorot_place.new" "$heorot_place" ||
                heorot_fail "$heorot_dir cannot be copied to $HEOROT_OWN"
        fi
        mount --bind "$heorot_place" "$1$heorot_dir" || heorot_fail "$heorot_dir is not in the image"
    done
}

# heorot_mount_root PLACE NAME DEVICE
heorot_mount_root()
{
    heorot_words
    heorot_name "$2" "$3"
    if [ -n "$HEOROT_OVERLAY" ]; then
        mkdir -p /run/heorot/image
        heorot_mount ro "$HEOROT_PATH" /run/heorot/image
        heorot_overlay /run/heorot/image "$1"
    else
        heorot_mount "$HEOROT_MODE" "$HEOROT_PATH" "$1"
    fi
    if [ -n "$HEOROT_OWN" ]; then
        heorot_own "$1"
    fi
}
