//! Pools with a number of copies of their own, and files that get more copies; blocks that are verified by scrubs only.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

use crate::pools::{FILE_BYTES, bytes, check, is_settled, objects, write};
use crate::servers::{Client, Cluster, until};
use crate::targets::{json, mount3};

/// A new file of one object on the target of data server `n`, with a wrong byte at 4096.
async fn damaged(cluster: &Cluster, client: &Client, path: &str, n: usize) -> Bytes {
    let objects = || -> BTreeSet<PathBuf> {
        let dirs = std::fs::read_dir(cluster.file(&format!("target{n}/objects"))).expect("objects");
        let files = dirs.flat_map(|dir| std::fs::read_dir(dir.unwrap().path()).unwrap());
        files.map(|file| file.unwrap().path()).collect()
    };
    let before = objects();
    let file = write(client, path, 1).await;
    let new = objects().into_iter().filter(|path| !before.contains(path));
    let largest = new.max_by_key(|path| path.metadata().unwrap().len()).expect("a new object");
    std::fs::File::options().write(true).open(largest).unwrap().write_all_at(&[9], 4096).unwrap();
    file
}

/// Data servers of which no chains of copies are made by themselves: targets of those could not be taken out of their pool
/// one by one.
fn start_without_chains(data_servers: usize) -> Cluster {
    let mut cluster = Cluster::start(1, 1);
    cluster.ask(0, &["set", "stripe_copies", "1"]).unwrap();
    (1..data_servers).for_each(|n| cluster.add_data_server(n));
    cluster
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_has_copies_of_its_own_and_files_get_more_of_them() {
    let mut cluster = start_without_chains(4);
    for (key, value) in [("trash_time", "0s"), ("rebalance", "false")] {
        cluster.ask(0, &["set", key, value]).unwrap();
    }
    let refused = |args: &[&str]| cluster.ask(0, args).unwrap_err();
    cluster.ask(0, &["pool", "create", "flash"]).unwrap();
    cluster.ask(0, &["pool", "add", "flash", "ds1", "ds2", "ds3"]).unwrap();
    cluster.ask(0, &["set", "stripe_copies", "auto"]).unwrap();
    let too_many = refused(&["pool", "set", "flash", "--copies", "4"]);
    assert!(too_many.contains("copies are 1 to 3"), "{too_many}");
    assert!(refused(&["pool", "set", "default", "--copies", "2"]).contains("heorot set stripe_copies"));
    assert!(refused(&["pool", "set", "flash", "--verify", "never"]).contains("neither read nor scrub"));
    assert!(refused(&["pool", "set", "flahs", "--verify", "read"]).contains("no pool \"flahs\""));
    let client = mount3(&cluster).await;
    client.mkdir_path("fast", 0o755).await.unwrap();
    client.mkdir_path("fast/two", 0o755).await.unwrap();
    let ask = |args: &[&str]| cluster.ask(0, args).unwrap();
    let set = ask(&["stripe", "set", "/fast", "--pool", "flash"]);
    assert!(
        set.contains("of the pool flash, 2 copies"),
        "three data servers are on machines of their own: {set}"
    );
    let set = ask(&["stripe", "set", "/fast/two", "--copies", "2"]);
    assert!(set.contains("of the pool flash, 2 copies"), "{set}");
    let before = write(&client, "fast/before", 1).await;
    let count = |cluster: &Cluster| (1..4).map(|n| objects(cluster, n)).sum::<usize>();
    let of_two_copies = count(&cluster);
    assert!(of_two_copies >= 2 && objects(&cluster, 0) == 0, "{of_two_copies}");

    // New files have what the pool says; the directory with a number of its own keeps that.
    ask(&["pool", "set", "flash", "--copies", "3"]);
    let pools = json(&cluster, &["pool", "list", "--json"]);
    assert_eq!((&pools[1]["copies"], &pools[1]["sets_copies"]), (&3.into(), &true.into()), "{pools}");
    assert!(ask(&["stripe", "get", "/fast"]).contains("3 copies (set here)"));
    assert!(ask(&["stripe", "get", "/fast/two"]).contains("2 copies (set here)"));
    let after = write(&client, "fast/after", 2).await;
    assert_eq!(count(&cluster), of_two_copies * 5 / 2);

    // The old file gets its third copy, while each data server may be away after it.
    let applied = ask(&["stripe", "apply", "/fast"]);
    assert!(applied.contains("1 get copies"), "{applied}");
    until("all chains have three members", || is_settled(&cluster));
    assert_eq!(count(&cluster), of_two_copies * 3);
    assert!(ask(&["stripe", "apply", "/fast"]).contains(" 0 get copies"));
    // No chain of two copies is left: the directory that wants them gets new ones.
    let two = write(&client, "fast/two/f", 3).await;
    assert_eq!(count(&cluster), of_two_copies * 4);
    let files = [before, after, two];
    for killed in 1..3 {
        cluster.data_servers[killed] = None;
    }
    for (file, n) in files[..2].iter().zip(1..) {
        let read = client.read(file.clone(), (FILE_BYTES / 2) as u64, 1 << 16).await.expect("a read");
        assert_eq!(read.as_ref(), &bytes(n)[..1 << 16], "with one of three data servers");
    }
    for started in 1..3 {
        cluster.start_data_server(started);
    }
    until("all are there again", || is_settled(&cluster));
    // Fewer copies: those that exist stay.
    cluster.ask(0, &["pool", "set", "flash", "--copies", "0"]).unwrap();
    assert!(cluster.ask(0, &["stripe", "get", "/fast"]).unwrap().contains("2 copies (set here)"));
    let applied = cluster.ask(0, &["stripe", "apply", "/fast"]).unwrap();
    assert!(applied.contains("2 files keep more copies"), "{applied}");
    check(&client, &[write(&client, "again", 0).await]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_of_a_pool_are_verified_when_it_says_so() {
    let cluster = start_without_chains(2);
    cluster.ask(0, &["pool", "create", "scratch"]).unwrap();
    cluster.ask(0, &["pool", "add", "scratch", "ds1"]).unwrap();
    cluster.ask(0, &["pool", "set", "scratch", "--verify", "scrub"]).unwrap();
    let client = mount3(&cluster).await;
    client.mkdir_path("tmp", 0o755).await.unwrap();
    cluster.ask(0, &["stripe", "set", "/tmp", "--pool", "scratch"]).unwrap();
    cluster.ask(0, &["stripe", "set", "/", "--columns", "1", "--copies", "1"]).unwrap();
    let byte = async |file: Bytes| client.read(file, 4096, 1).await.map(|read| read[0]).ok();
    // From its next heartbeat on the data server does not verify.
    let mut read = None;
    for n in 0..60 {
        let file = damaged(&cluster, &client, &format!("tmp/f{n}"), 1).await;
        read = byte(file).await;
        if read.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(read, Some(9), "the pool trades the check for speed");
    let file = damaged(&cluster, &client, "f", 0).await;
    assert_eq!(byte(file).await, None, "a damaged block without a copy is an error elsewhere");
    // From its next heartbeat on it verifies again.
    let file = damaged(&cluster, &client, "tmp/last", 1).await;
    cluster.ask(0, &["pool", "set", "scratch", "--verify", "default"]).unwrap();
    for _ in 0..600 {
        if byte(file.clone()).await.is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the block is not verified");
}
