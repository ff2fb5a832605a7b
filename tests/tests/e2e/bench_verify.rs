//! `heorot bench` on a real client: it tells of damage below the file system, and refuses cached reads.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tests::{Client, Cluster, Lab, Load};

const MINUTES: Duration = Duration::from_secs(240);
const FILE_BYTES: u64 = 8 << 20;
const FLIPPED: u64 = 5_000_001;

/// Cluster with each file on one target, a client, and the program at a path of the client.
fn mounted(lab: &Lab) -> (Cluster, Client, String) {
    let cluster = Cluster::up(lab, 2);
    cluster.admin(&["stripe", "set", "/", "--columns", "1"]);
    let client = lab.client("ash");
    cluster.mount(&client, "vers=4.2");
    let load = Load::new(lab);
    (cluster, client, format!("{} bench", load.program().display()))
}

/// Objects with a byte at `offset`.
fn objects_with(folder: &Path, offset: u64) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the cluster's folder").map(|entry| entry.expect("an entry")) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(objects_with(&path, offset));
        } else if path.components().any(|part| part.as_os_str() == "objects")
            && entry.metadata().is_ok_and(|metadata| metadata.len() > offset)
        {
            found.push(path);
        }
    }
    found
}

fn flip(object: &Path, offset: u64) {
    let file = File::options().read(true).write(true).open(object).expect("the object");
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).expect("its byte");
    file.write_all_at(&[byte[0] ^ 1], offset).expect("its byte, flipped");
}

#[test]
fn a_byte_flipped_on_a_data_servers_disk_is_found_when_reads_are_verified() {
    let lab = Lab::open();
    let (cluster, client, bench) = mounted(&lab);
    let wait = "test $HEOROT_BENCH_PHASE = write || { touch /tmp/written; until [ -e /tmp/go ]; do sleep 0.05; done; }";
    for direct in ["", "--direct"] {
        client.run("rm -f /tmp/written /tmp/go");
        let running = client.spawn(&format!(
            "{bench} processes /mnt/h --size {FILE_BYTES} --record 64KiB --processes 1 --verify {direct} --before '{wait}'"
        ));
        client.run_within(MINUTES, "until [ -e /tmp/written ]; do sleep 0.05; done");
        let objects = objects_with(cluster.folder(), FLIPPED);
        let [object] = objects.as_slice() else { panic!("one file was written, but there are {objects:?}") };
        flip(object, FLIPPED);
        client.run("touch /tmp/go");
        let output = running.wait(MINUTES);
        assert!(output.status != 0, "{output}");
        // The data server finds it by its checksum, and no wrong byte reaches the client.
        assert!(output.text.contains("processes-1/0 at "), "{output}");
        assert!(output.text.contains("Input/output error"), "{output}");
    }
    // The same without a flipped byte: success, and no file remains.
    client.run_within(
        MINUTES,
        &format!("{bench} processes /mnt/h --size {FILE_BYTES} --record 64KiB --processes 1,2 --verify; [ -z \"$(ls /mnt/h)\" ]"),
    );
}

/// Two clients on one machine share its page cache, so one of two reads is refused.
#[test]
fn reads_from_a_clients_page_cache_are_refused_unless_they_are_asked_for() {
    let lab = Lab::open();
    let (_cluster, client, bench) = mounted(&lab);
    let run = format!("{bench} shared-read /mnt/h --size {FILE_BYTES} --record 64KiB");
    client.run_within(MINUTES, &format!("{run} --clients 1 --verify"));
    let refused = client.try_run(&format!("{run} --clients 2"));
    assert!(
        refused.status != 0 && refused.text.contains("the rest from the client's page cache"),
        "{refused}"
    );
    client.run_within(MINUTES, &format!("{run} --clients 2 --direct --verify"));
    let warm = client.run_within(MINUTES, &format!("{run} --clients 2 --warm"));
    assert!(warm.contains("WARM"), "{warm}");
}

#[test]
fn who_may_not_write_there_or_forgot_to_mount_is_told_what_to_do() {
    let lab = Lab::open();
    let (_cluster, client, bench) = mounted(&lab);
    let refused = |line: &str| {
        let output = client.try_run(line);
        assert!(output.status != 0, "{output}");
        output.text.clone()
    };
    let run = "record-size /mnt/h --size 1MiB --records 64KiB";
    let text = refused(&format!("setpriv --reuid 65534 --clear-groups {bench} {run}"));
    assert!(text.contains("Permission denied: run as a user who may write there"), "{text}");
    let text = refused(&format!("{bench} record-size /var/tmp --size 1MiB --records 64KiB"));
    assert!(text.contains("is not on a mount but on the root file system"), "{text}");
    let text = refused(&format!("{bench} record-size /mnt/h --size 100TiB"));
    assert!(text.contains("this run writes up to 100 TiB, but only"), "{text}");
}
