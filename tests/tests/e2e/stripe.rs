//! `heorot stripe`: the setting of a directory applies to new files below it, and their data are striped so.

use tests::{Cluster, Lab};

const MIB: u64 = 1 << 20;

#[test]
fn files_below_a_directory_are_striped_as_it_says_and_others_as_before() {
    let lab = Lab::open();
    let cluster = Cluster::separate(&lab, 4);
    let client = lab.client("ash");
    cluster.mount(&client, "vers=4.2");
    client.run("mkdir -p /mnt/h/narrow/below");
    cluster.admin(&["stripe", "set", "/narrow", "--columns", "1", "--unit", "64KiB"]);
    let inherited = cluster.admin(&["stripe", "get", "/narrow/below"]);
    assert!(inherited.contains("64 KiB on each of 1 target"), "{inherited}");

    for (file, expected) in [("narrow/below/f", [0, 0, 0, 4 * MIB]), ("wide", [MIB; 4])] {
        let before = cluster.traffic();
        client.run(&format!("dd if=/dev/zero of=/mnt/h/{file} bs=1M count=4 conv=fsync status=none"));
        let traffic = cluster.traffic().since(&before);
        let mut written: Vec<_> = traffic.data_servers.iter().map(|bytes| bytes.written).collect();
        written.sort_unstable();
        assert_eq!(written, expected, "{file}");
    }
    client.run("umount /mnt/h");
}
