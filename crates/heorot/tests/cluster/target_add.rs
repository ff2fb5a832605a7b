//! `heorot target add`: data servers get targets while they run, and while clients write.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use rustix::process::Signal;
use serde_json::Value;

use crate::pools::{check, write};
use crate::servers::{Client, Cluster, run, until};
use crate::small_disk::SmallDisk;
use crate::targets::{json, mount3};

/// Last line of each file: it stays.
const COMMENT: &str = "# The end, written by hand.\n";

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn directory(cluster: &Cluster, name: &str) -> PathBuf {
    let path = cluster.file(name);
    fs::create_dir_all(&path).expect("a directory");
    path
}

/// Runs `heorot target add` for data server `n`.
fn add(cluster: &Cluster, n: usize, dir: &Path) -> Result<String, String> {
    run(&["target", "add", text(dir), "--config", text(&cluster.file(&format!("ds{n}.toml")))])
}

/// The target in this directory, as metaservers know it; null: they do not.
fn known(cluster: &Cluster, dir: &Path) -> Value {
    let all = json(cluster, &["target", "list", "--json"]);
    let its = all.as_array().expect("targets").iter().find(|target| target["path"] == text(dir));
    its.cloned().unwrap_or_default()
}

/// Objects on the target in this directory.
fn objects(dir: &Path) -> usize {
    let dirs = fs::read_dir(dir.join("objects")).expect("objects").map(|dir| dir.expect("an entry").path());
    dirs.map(|dir| fs::read_dir(dir).expect("objects").count()).sum()
}

fn config(cluster: &Cluster, n: usize) -> String {
    fs::read_to_string(cluster.file(&format!("ds{n}.toml"))).expect("the file")
}

/// Makes files and reads them back, until it is told to stop. Returns their number.
async fn work(client: Client, stop: Arc<AtomicBool>) -> usize {
    let mut made = 0;
    while !stop.load(Ordering::Relaxed) {
        let file = client.create_path(&format!("w{made}"), Some(0o644)).await.expect("a file").fh;
        let bytes = Bytes::from(vec![made as u8; 1 << 20]);
        nfs_rs::write_all(&*client, file.clone(), 0, bytes).await.expect("a write");
        client.commit(file.clone(), 0, 0).await.expect("a commit");
        let read = client.read(file, 1 << 19, 1 << 12).await.expect("a read");
        assert_eq!(read.as_ref(), &[made as u8; 1 << 12], "file {made}");
        made += 1;
    }
    made
}

/// Three data servers; two get one more target each, at the same time, while a client writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_servers_get_targets_while_a_client_writes_and_keep_them() {
    let mut cluster = Cluster::start(1, 0);
    (0..3).for_each(|n| cluster.add_data_server_with(n, COMMENT));
    until("copies can be made", || cluster.is_whole() && cluster.chains_of("ds0") > 0);
    let client = mount3(&cluster).await;
    let stop = Arc::new(AtomicBool::new(false));
    let worker = tokio::spawn(work(mount3(&cluster).await, Arc::clone(&stop)));

    let more = [directory(&cluster, "more0"), directory(&cluster, "more1"), directory(&cluster, "more 2")];
    let said: Vec<String> = std::thread::scope(|scope| {
        let add = |n, dir| {
            let cluster = &cluster;
            scope.spawn(move || add(cluster, n, dir))
        };
        // Two at once for one data server.
        let all = [add(0, &more[0]), add(1, &more[1]), add(0, &more[2])];
        all.into_iter().map(|added| added.join().unwrap().expect("added")).collect()
    });
    assert!(said[0].contains("more0 is a target of ds0 from now on"), "{said:?}");
    for dir in &more {
        assert_eq!(known(&cluster, dir)["state"], "in use", "the command waits for the registration");
    }
    let (of_ds0, of_ds1) = (config(&cluster, 0), config(&cluster, 1));
    assert!(of_ds0.ends_with(COMMENT) && of_ds1.ends_with(COMMENT), "{of_ds0}");
    assert!(more[0..3].iter().filter(|dir| of_ds0.contains(&format!("{dir:?}"))).count() == 2, "{of_ds0}");
    assert!(of_ds1.contains(&format!("target1\", {:?}]", more[1])), "{of_ds1}");

    until("chains are made there", || {
        cluster.is_whole() && more.iter().all(|dir| known(&cluster, dir)["chains"].as_u64() > Some(0))
    });
    let mut files = Vec::new();
    while more.iter().any(|dir| objects(dir) == 0) {
        let n = files.len();
        assert!(n < 60, "no file is placed there");
        files.push(write(&client, &format!("f{n}"), n).await);
    }
    check(&client, &files).await;
    let said = add(&cluster, 0, &more[0]).unwrap_err();
    assert!(said.contains("more0: is a target of this data server already"), "{said}");
    assert_eq!(config(&cluster, 0), of_ds0);

    // The next process has them, too.
    for n in 0..2 {
        drop(cluster.data_servers[n].take());
        let _ = fs::remove_file(cluster.file(&format!("ds{n}.log")));
        cluster.start_data_server(n);
    }
    until("all are there again", || {
        cluster.is_whole() && more.iter().all(|dir| known(&cluster, dir)["state"] == "in use")
    });
    check(&client, &files).await;
    stop.store(true, Ordering::Relaxed);
    assert!(worker.await.expect("no error at the client") > 0);
}

/// Names and texts below a directory.
fn content(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = vec![];
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let bytes = if path.is_file() { fs::read(&path).unwrap() } else { vec![] };
        all.extend(if path.is_dir() { content(&path) } else { vec![] });
        all.push((path, bytes));
    }
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_cannot_be_a_target_is_refused_and_nothing_changes() {
    let cluster = Cluster::start(1, 2);
    until("both are known", || known(&cluster, &cluster.file("target1"))["state"] == "in use");
    let copy = directory(&cluster, "copy");
    fs::copy(cluster.file("target1/target.toml"), copy.join("target.toml")).unwrap();
    let foreign = directory(&cluster, "foreign");
    let marker = fs::read_to_string(cluster.file("target1/target.toml")).unwrap();
    let cluster_line = marker.lines().find(|line| line.starts_with("cluster")).unwrap();
    let others = format!("cluster = \"{}\"", "ab".repeat(16));
    fs::write(foreign.join("target.toml"), marker.replace(cluster_line, &others)).unwrap();
    let photos = directory(&cluster, "photos");
    fs::write(photos.join("cat.jpg"), "a cat").unwrap();
    let mounted = |name: &str, kind: &str, options: &str| {
        let dir = directory(&cluster, name);
        let mut mount = Command::new("mount");
        mount.args(["-t", kind, "-o", options, "heorot-small"]).arg(&dir);
        assert!(mount.status().unwrap().success(), "{mount:?}: is this root?");
        SmallDisk(dir)
    };
    let (ramfs, read_only) = (mounted("ramfs", "ramfs", "mode=0700"), mounted("ro", "tmpfs", "ro,size=1m"));
    let (before, left) = (config(&cluster, 0), [&copy, &foreign, &photos].map(|dir| content(dir)));
    for (dir, why) in [
        (PathBuf::from("target7"), "is not an absolute path"),
        (cluster.file("nothing"), "is not there; make the directory, or mount the disk"),
        (cluster.file("ds0.toml"), "is not a directory"),
        (cluster.file("target0"), "is a target of this data server already"),
        (cluster.file("target0/objects"), "is inside the target"),
        (cluster.dir.path().to_owned(), "has the target"),
        (cluster.file("target1"), "another process serves this target"),
        (copy.clone(), "which ds1 serves in"),
        (foreign.clone(), "belongs to cluster abab"),
        (photos.clone(), "not empty and not a Heorot target (it holds \"cat.jpg\")"),
        (ramfs.0.clone(), "has no extended attributes"),
        (read_only.0.clone(), "is read-only for this process"),
    ] {
        let said = add(&cluster, 0, &dir).unwrap_err();
        assert!(said.contains(why) && said.lines().count() == 1, "{}: {said}", dir.display());
        assert_eq!(config(&cluster, 0), before, "{}", dir.display());
    }
    assert_eq!([&copy, &foreign, &photos].map(|dir| content(dir)), left);
    assert!(content(&ramfs.0).is_empty() && content(&read_only.0).is_empty());
    let said = cluster.ask(0, &["target", "add", text(&directory(&cluster, "new"))]).unwrap_err();
    assert!(said.contains("this is a metaserver, which has no targets"), "{said}");
    assert_eq!(cluster.node(0, "ds0")["liveness"], "alive", "{}", cluster.node(0, "ds0"));
}

/// ```text
/// the machine of ds1 dies; files are written without it
/// its disk moves to that of ds0, which runs: add -> its chains get what they lack, also at ds0
/// ds2 dies                                       -> all files are read at ds0
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_of_a_dead_machine_serves_at_a_data_server_that_runs() {
    let mut cluster = Cluster::start(1, 3);
    cluster.ask(0, &["stripe", "set", "/", "--copies", "2"]).unwrap();
    until("copies can be made", || cluster.is_whole() && cluster.chains_of("ds1") > 0);
    let client = mount3(&cluster).await;
    let mut files = Vec::new();
    for n in 0..6 {
        files.push(write(&client, &format!("f{n}"), n).await);
    }
    let disk = cluster.file("target1");
    assert!(objects(&disk) > 0);
    cluster.data_servers[1] = None;
    until("it is away", || known(&cluster, &disk)["state"] == "away");
    for (n, file) in files.iter().enumerate().skip(3) {
        let bytes = crate::pools::bytes(n + 10);
        nfs_rs::write_all(&*client, file.clone(), 0, bytes).await.expect("written");
        client.commit(file.clone(), 0, 0).await.expect("on the disks");
    }
    until("its server counts as silent", || add(&cluster, 0, &disk).is_ok());
    until("it is whole at ds0", || known(&cluster, &disk)["server"] == "ds0" && cluster.is_whole());
    cluster.data_servers[2] = None;
    for (n, file) in files.iter().enumerate() {
        let read = client.read(file.clone(), 1 << 20, 1 << 16).await.expect("a read");
        let written = if n < 3 { n } else { n + 10 };
        assert_eq!(read.as_ref(), &crate::pools::bytes(written)[..1 << 16], "file {n}");
    }
}

/// ```text
/// ds0 is stopped:  add                            -> its file; the target is there from the next start on
/// ds0 runs:        the file names one more        -> as after a command that was interrupted: add serves it
///                  the file names one more, SIGHUP -> served
///                  the file names one less, SIGHUP -> a line in the log; served until the next start
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_and_the_data_server_come_together_whichever_is_first() {
    let mut cluster = Cluster::start(1, 1);
    let dirs = ["stopped", "interrupted", "by hand"].map(|name| directory(&cluster, name));
    cluster.data_servers[0].take().unwrap().stop();
    let said = add(&cluster, 0, &dirs[0]).unwrap();
    assert!(
        said.contains("the data server does not run, and uses the target from its next start on"),
        "{said}"
    );
    assert!(add(&cluster, 0, &dirs[0]).unwrap_err().contains("is in `targets` of"));
    assert!(add(&cluster, 0, &cluster.file("target0/objects")).unwrap_err().contains("is inside the target"));
    assert_eq!(fs::read_dir(&dirs[0]).unwrap().count(), 0, "it is made at the start");
    let _ = fs::remove_file(cluster.file("ds0.log"));
    cluster.start_data_server(0);
    until("it is there", || known(&cluster, &dirs[0])["state"] == "in use");

    let with_one_more = |cluster: &Cluster, dir: &Path| {
        let before = config(cluster, 0);
        let after = before.replace("]\n", &format!(", {dir:?}]\n"));
        assert_ne!(after, before);
        fs::write(cluster.file("ds0.toml"), &after).unwrap();
        (before, after)
    };
    let (_, after) = with_one_more(&cluster, &dirs[1]);
    let said = add(&cluster, 0, &dirs[1]).unwrap();
    assert!(said.contains("is a target of ds0 from now on"), "{said}");
    assert_eq!((config(&cluster, 0), &known(&cluster, &dirs[1])["state"]), (after, &Value::from("in use")));

    let (before, _) = with_one_more(&cluster, &dirs[2]);
    let server = cluster.data_servers[0].as_mut().unwrap();
    server.signal(Signal::HUP);
    until("it is served", || known(&cluster, &dirs[2])["state"] == "in use");
    fs::write(cluster.file("ds0.toml"), before).unwrap();
    let server = cluster.data_servers[0].as_mut().unwrap();
    server.signal(Signal::HUP);
    server.wait_for_log("the file does not name a target any more: it is served until the next start");
    assert_eq!(known(&cluster, &dirs[2])["state"], "in use");
    let said = add(&cluster, 0, &dirs[2]).unwrap_err();
    assert!(said.contains("is served until the next start of the data server, and is not in"), "{said}");
    // Nothing has registered a target that is not there.
    assert_eq!(cluster.status()["data_servers"][0]["targets"].as_array().map(Vec::len), Some(4));
}
