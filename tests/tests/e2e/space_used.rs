//! `du`: the blocks that files take at the data servers, of one copy.

use std::time::Duration;

use tests::{Client, Cluster, Lab};

const DATA_SERVERS: usize = 4;
const MINUTES: Duration = Duration::from_secs(240);

/// Waits until `du` of a file says so many KiB, or up to 15 % more: blocks of the file system that describe others.
const UNTIL: &str = r#"
until_takes() { # file, KiB
    for try in $(seq 300); do
        took=$(du -k "$1" | cut -f1)
        [ $took -ge $2 ] && [ $took -le $(($2 + $2 * 15 / 100 + 16)) ] && return 0
        sleep 0.1
    done
    echo "$1 takes $took KiB, not $2" >&2; return 1
}
cd /mnt/h
"#;

fn run(client: &Client, script: &str) {
    client.run_within(MINUTES, &format!("{UNTIL}\n{script}"));
}

#[test]
fn du_says_what_files_take_with_holes_and_copies() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, DATA_SERVERS);
    cluster.admin(&["stripe", "set", "/", "--copies", "2", "--columns", "2", "--unit", "64KiB"]);
    let ash = lab.client("ash");
    cluster.mount(&ash, "vers=4.2,actimeo=1");
    run(
        &ash,
        "head -c 16777216 /dev/urandom >whole; until_takes whole 16384
         dd if=/dev/urandom of=sparse bs=1M count=2 seek=100 conv=notrunc status=none; until_takes sparse 2048
         [ $(stat -c %s sparse) = 106954752 ]
         cp whole punched; fallocate -p -o 1048576 -l 8388608 punched; until_takes punched 8192
         fallocate -l 33554432 reserved; until_takes reserved 32768
         cp whole short; truncate -s 4194304 short; until_takes short 4096
         truncate -s 1G short; until_takes short 4096",
    );
    // By way of the metaserver, with writes in any order.
    let elm = lab.client("elm");
    cluster.mount(&elm, "vers=3");
    run(
        &elm,
        "until_takes sparse 2048; until_takes punched 8192; until_takes short 4096
         head -c 16777216 /dev/urandom >third; until_takes third 16384
         dd if=/dev/urandom of=hole bs=1M count=3 seek=200 conv=notrunc status=none; until_takes hole 3072
         dd if=/dev/urandom of=sparse bs=1M count=1 seek=10 conv=notrunc status=none; until_takes sparse 3072",
    );
    run(&ash, "until_takes sparse 3072; until_takes third 16384; rm *; cd /; umount /mnt/h");
    elm.run("umount /mnt/h");
}
