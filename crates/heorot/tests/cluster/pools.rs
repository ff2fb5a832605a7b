//! Pools: directories choose the targets of their files, and targets go from one pool to another under clients.

use bytes::Bytes;

use crate::servers::{Client, Cluster, mount, until};
use crate::targets::{json, mount3};

pub const FILE_BYTES: usize = 4 << 20;

pub fn bytes(n: usize) -> Bytes {
    Bytes::from(vec![n as u8; FILE_BYTES])
}

pub async fn write(client: &Client, path: &str, n: usize) -> Bytes {
    let file = client.create_path(path, Some(0o644)).await.expect("a file").fh;
    nfs_rs::write_all(&**client, file.clone(), 0, bytes(n)).await.expect("written");
    client.commit(file.clone(), 0, 0).await.expect("on the disks");
    file
}

pub async fn check(client: &Client, files: &[Bytes]) {
    for (n, file) in files.iter().enumerate() {
        let read = client.read(file.clone(), (FILE_BYTES / 2) as u64, 1 << 16).await.expect("a read");
        assert_eq!(read.as_ref(), &bytes(n)[..1 << 16], "file {n}");
    }
}

/// Objects on the target of a data server.
pub fn objects(cluster: &Cluster, n: usize) -> usize {
    let dirs = std::fs::read_dir(cluster.file(&format!("target{n}/objects"))).expect("objects");
    let files =
        |dir: std::io::Result<std::fs::DirEntry>| std::fs::read_dir(dir.unwrap().path()).unwrap().count();
    dirs.map(files).sum()
}

/// True if all chains are whole, and within their pools.
pub fn is_settled(cluster: &Cluster) -> bool {
    cluster.is_whole() && cluster.status()["chains"]["in_other_pools"] == 0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_in_the_pool_of_their_directory_and_follow_when_targets_leave_it() {
    let cluster = Cluster::start(1, 5);
    for (key, value) in [("trash_time", "0s"), ("rebalance", "false")] {
        cluster.ask(0, &["set", key, value]).unwrap();
    }
    let refused = |args: &[&str]| cluster.ask(0, args).unwrap_err();
    cluster.ask(0, &["pool", "create", "flash"]).unwrap();
    assert!(refused(&["pool", "create", "flash"]).contains("there is a pool \"flash\" already"));
    assert!(refused(&["pool", "create", "my pool"]).contains("' ' in it"));
    assert!(refused(&["pool", "add", "flahs", "ds0"]).contains("no pool \"flahs\"; heorot pool list"));
    assert!(refused(&["pool", "add", "flash", "ds9"]).contains("no target is called \"ds9\""));
    let client = mount3(&cluster).await;
    client.mkdir_path("fast", 0o755).await.unwrap();
    let empty = refused(&["stripe", "set", "/fast", "--pool", "flash"]);
    assert!(empty.contains("has no targets: heorot pool add flash TARGET comes first"), "{empty}");
    until("copies can be made", || cluster.is_whole() && cluster.chains_of("ds0") > 0);
    cluster.ask(0, &["pool", "add", "flash", "ds0"]).unwrap();
    let copies = refused(&["stripe", "set", "/fast", "--pool", "flash", "--copies", "2"]);
    assert!(copies.contains("2 copies need data servers on 2 nodes, and there are 1"), "{copies}");
    cluster.ask(0, &["stripe", "set", "/fast", "--pool", "flash", "--copies", "1"]).unwrap();
    let last = refused(&["node", "drain", "ds0"]);
    assert!(last.contains("ds0 has the only targets of the pool \"flash\""), "{last}");
    assert!(refused(&["node", "remove", "ds0"]).contains("the only targets of the pool"));
    cluster.ask(0, &["pool", "add", "flash", "ds1", "ds2"]).unwrap();
    cluster.ask(0, &["stripe", "set", "/fast", "--pool", "flash", "--copies", "2"]).unwrap();
    assert!(
        cluster
            .ask(0, &["stripe", "get", "/fast"])
            .unwrap()
            .contains("of the pool flash, 2 copies (set here)")
    );
    until("chains are within their pools", || is_settled(&cluster));

    let mut files = Vec::new();
    for n in 0..3 {
        files.push(write(&client, &format!("fast/f{n}"), n).await);
    }
    let all = |cluster: &Cluster| (0..5).map(|n| objects(cluster, n)).collect::<Vec<_>>();
    let fast = all(&cluster);
    assert!(fast[..3].iter().all(|count| *count > 0) && fast[3..] == [0, 0], "{fast:?}");
    for n in 3..6 {
        files.push(write(&client, &format!("f{n}"), n).await);
    }
    let both = all(&cluster);
    assert!(both[..3] == fast[..3] && both[3..].iter().all(|count| *count > 0), "{both:?}");
    // A copy by the servers has its directory's pool, not that of its source.
    let v4 = mount(cluster.metaservers[0].0).await;
    let source = v4.open_path("f4", nfs_rs::OPEN_READ).await.unwrap().fh;
    let copied = v4.create_path("fast/copied", Some(0o644)).await.unwrap().fh;
    let done = v4.copy_range(source, copied.clone(), 0, 0, FILE_BYTES as u64).await.unwrap();
    assert_eq!(done.count, FILE_BYTES as u64);
    let read = v4.read(copied, 1 << 20, 1 << 16).await.expect("a read");
    assert_eq!(read.as_ref(), &bytes(4)[..1 << 16]);
    let with_copy = all(&cluster);
    assert!(with_copy[..3] > both[..3] && with_copy[3..] == both[3..], "{both:?}, then {with_copy:?}");

    let pools = json(&cluster, &["pool", "list", "--json"]);
    assert_eq!(
        (pools[0]["name"].as_str(), pools[1]["targets"].as_array().map(Vec::len)),
        (Some("default"), Some(3))
    );
    assert_eq!(pools[1]["directories"], 1, "{pools}");
    assert!(refused(&["pool", "remove", "flash"]).contains("is in use"));
    assert!(refused(&["pool", "remove", "default"]).contains("the default pool stays"));

    // Copies move to the targets that stay.
    cluster.ask(0, &["pool", "add", "default", "ds0"]).unwrap();
    until("ds0 has no data of the pool", || is_settled(&cluster) && objects(&cluster, 0) == 0);
    check(&client, &files).await;
    let torn = refused(&["pool", "add", "default", "ds1"]);
    assert!(torn.contains("chains of 2 copies, and targets of 1 data servers would stay"), "{torn}");
    assert!(refused(&["pool", "add", "default", "ds1", "ds2"]).contains("directories name it"));

    // All at once: nothing moves.
    cluster.ask(0, &["stripe", "set", "/fast", "--inherit"]).unwrap();
    let before = (objects(&cluster, 1), objects(&cluster, 2));
    cluster.ask(0, &["pool", "add", "default", "ds1", "ds2"]).unwrap();
    cluster.ask(0, &["pool", "remove", "flash"]).unwrap();
    until("all chains are of one pool", || is_settled(&cluster));
    assert_eq!((objects(&cluster, 1), objects(&cluster, 2)), before);
    check(&client, &files).await;
    files.push(write(&client, "fast/f6", 6).await);
    check(&client, &files).await;
}
