#!/bin/bash
# Process 1 of a client machine. Its root is the host's own file system, read-only; the one place of the host that it
# may write to is its exchange folder. Words of the kernel's command line arrive as environment:
#   exchange=/folder  name=host-name  address=10.77.0.10/24  modules=/folder  line=/dev/tty0
# It then takes requests from the serial line, one in each line, and answers on it:
#   run 7   start /folder/7.sh; when it has ended, its output is in /folder/7.out, and the answer is: done 7 STATUS
#   look 7  tell what 7 is doing, into /folder/7.look; the answer is: seen 7
#   kill 7  kill 7 and what it started
# and ends when the line closes, so that a client machine does not outlive the test that booted it.
# With the word `diskless` its root is another one, which an initramfs has found; then it has its network already.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C TERM=dumb

mountpoint -q /proc || mount -t proc proc /proc
mountpoint -q /sys || mount -t sysfs sysfs /sys
for word in $(cat /proc/cmdline); do
    case $word in
        diskless) diskless=yes ;;
        exchange=* | name=* | line=*) export "${word?}" ;;
    esac
done
mountpoint -q /dev || mount -t devtmpfs devtmpfs /dev
exec 3<>"$line" </dev/null >/dev/console 2>&1
stty raw -echo <&3

mkdir -p /dev/shm
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
for folder in /dev/shm /tmp /run /mnt; do
    # An initramfs has mounted /run, and what the root is made of is there.
    mountpoint -q $folder || mount -t tmpfs tmpfs $folder
done
if [ -n "${diskless:-}" ]; then
    mkdir -p /run/exchange
    mount -t hostfs -o "$exchange" none /run/exchange || poweroff -f
    exchange=/run/exchange
elif grep -q hostfs /proc/filesystems; then
    mount -t hostfs -o "$exchange" none "$exchange" || poweroff -f
else
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=none exchange "$exchange" || poweroff -f
fi
# The kernel itself starts modprobe, too, which looks there.
[ -n "${diskless:-}" ] || mount --bind "$modules" /lib/modules || poweroff -f
chmod 1777 /tmp /dev/shm
cd /tmp || poweroff -f

ip link set lo up
if [ -z "${diskless:-}" ]; then
    # A client is told apart by its host name alone: two with one name are one client to a v4 server.
    echo "$name" >/proc/sys/kernel/hostname
    # User Mode Linux calls its first interface vec0, other kernels eth0: scripts know one name.
    [ -e /sys/class/net/vec0 ] || ip link set eth0 name vec0
    ip addr add "$address" dev vec0
    ip link set vec0 up
    modprobe nfs nfs4_unique_id="$name"
    modprobe -a nfsv4 nfsv3
fi

run() {
    # A session of its own, so that kill reaches all of it. Output stays in memory until the end: the exchange folder
    # is the host's, and its caches are not coherent.
    setsid bash -eu -o pipefail "$exchange/$1.sh" >"/run/$1.out" 2>&1 3>&- &
    echo $! >"/run/$1.pid"
    wait $!
    local status=$?
    cp "/run/$1.out" "$exchange/$1.out"
    rm "/run/$1.out" "/run/$1.pid"
    echo "done $1 $status" >&3
}

look() {
    {
        echo "--- output so far"
        tail -c 4000 "/run/$1.out"
        echo "--- processes"
        ps -e -o pid,ppid,stat,wchan:24,args | grep -v '\[.*\]$'
        for pid in $(ps -e -o pid=,stat= | awk '$2 ~ /^D/ {print $1}'); do
            echo "--- kernel stack of $pid: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
            cat "/proc/$pid/stack"
        done
        echo "--- connections, interfaces and neighbours"
        cat /proc/net/tcp /proc/net/dev /proc/interrupts
        ip neigh
        echo "--- kernel log"
        dmesg | tail -n 30
    } >"$exchange/$1.look" 2>&1
    echo "seen $1" >&3
}

echo "ready $(uname -r)" >&3
while read -r verb id <&3; do
    case $verb in
        run) run "$id" & ;;
        look) look "$id" & ;;
        # Its process is there, and a group of its own, a moment after it was asked for; it may also have ended.
        kill) until kill -9 -- "-$(cat "/run/$id.pid")" || [ -e "$exchange/$id.out" ]; do sleep 0.1; done ;;
    esac
done
poweroff -f
