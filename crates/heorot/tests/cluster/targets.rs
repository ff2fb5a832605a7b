//! Data servers and targets that are lost: the loss is reported at once, other files stay available, and a
//! replacement joins under the same name.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use rustix::process::Signal;
use serde_json::Value;

use crate::servers::{Client, Cluster, PORT, ask, metric, until};
use crate::small_disk::SmallDisk;

/// Time limit for EIO, long enough for a machine that is busy with other tests.
const AT_ONCE: Duration = Duration::from_secs(20);
const MIB: usize = 1 << 20;

/// Mounts with v3: nfs-rs then reads and writes through the metaserver.
pub async fn mount3(cluster: &Cluster) -> Client {
    let ip = cluster.metaservers[0].0;
    let url = format!("nfs://{ip}:{PORT}/?version=3&mountport={PORT}&noresvport=true");
    nfs_rs::parse_url_and_mount(&url).await.unwrap_or_else(|e| panic!("mount {url}: {e}")).into()
}

/// New files have one copy, also from when there are chains.
fn without_copies(cluster: Cluster) -> Cluster {
    cluster.ask(0, &["set", "stripe_copies", "1"]).expect("set");
    cluster
}

async fn write(client: &Client, path: &str, len: usize) -> nfs_rs::Result<()> {
    let file = client.create_path(path, Some(0o644)).await?.fh;
    fill(client, &file, len).await
}

async fn fill(client: &Client, file: &Bytes, len: usize) -> nfs_rs::Result<()> {
    nfs_rs::write_all(&**client, file.clone(), 0, Bytes::from(vec![7; len])).await?;
    client.commit(file.clone(), 0, 0).await
}

/// Reads one byte of each MiB.
async fn read(client: &Client, path: &str, len: usize) -> nfs_rs::Result<()> {
    let file = client.lookup_path(path).await?.fh;
    for at in (0..len).step_by(MIB) {
        let data = tokio::time::timeout(AT_ONCE, client.read(file.clone(), at as u64, 1)).await;
        assert_eq!(data.expect("an answer, not silence")?.as_ref(), [7]);
    }
    Ok(())
}

async fn cut(client: &Client, path: &str, size: u64) -> nfs_rs::Result<()> {
    let file = client.lookup_path(path).await?.fh;
    let done = client.setattr(file, None, None, None, None, Some(size), None, None);
    tokio::time::timeout(AT_ONCE, done).await.expect("an answer, not silence").map(drop)
}

pub fn json(cluster: &Cluster, args: &[&str]) -> Value {
    serde_json::from_str(&cluster.ask(0, args).unwrap()).unwrap()
}

fn servers(cluster: &Cluster) -> Vec<String> {
    let status = json(cluster, &["status", "--json"]);
    let names = status["data_servers"].as_array().unwrap().iter();
    names.map(|server| server["name"].as_str().unwrap().to_owned()).collect()
}

fn files_on(cluster: &Cluster, name: &str) -> Vec<String> {
    let mut files: Vec<_> =
        cluster.ask(0, &["files", "--on", name]).unwrap().lines().map(String::from).collect();
    files.sort_unstable();
    files
}

/// ```text
/// /big     ds0 ds1 ds2      /one, /two, …: 200 KiB each, all in the first column
/// /small   inline data
/// ```
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_server_that_is_gone_for_good_is_said_to_be_lost_and_forgotten_and_replaced() {
    let mut cluster = without_copies(Cluster::start(1, 3));
    let client = mount3(&cluster).await;
    write(&client, "big", 4 * MIB).await.unwrap();
    write(&client, "small", 1000).await.unwrap();
    write(&client, "cut", 4 * MIB).await.unwrap();
    for name in ["one", "two", "three", "gone"] {
        write(&client, name, 200 << 10).await.unwrap();
    }
    for ds in ["ds0", "ds1", "ds2"] {
        let all = files_on(&cluster, ds);
        assert!(all.contains(&"/big".to_owned()) && !all.contains(&"/small".to_owned()), "{all:?}");
    }
    let mut concerned = files_on(&cluster, "ds1");
    assert!(concerned.len() < 6, "those with nothing there are not concerned: {concerned:?}");
    cluster.data_servers[1] = None;
    // Files on the other targets do not wait for it; removals of its objects do.
    client.remove_path("gone").await.unwrap();
    concerned.retain(|path| path != "/gone");
    let work = || json(&cluster, &["status", "--json"])["deferred_ops"].as_u64().unwrap();
    until("it is noted that objects are to be removed", || work() == 1);
    let why = cluster.ask(0, &["node", "remove", "ds1"]).unwrap_err();
    assert!(why.contains("heorot files --on ds1 lists"), "{why}");
    let said = cluster.ask(0, &["node", "remove", "ds1", "--force"]).unwrap();
    assert!(said.starts_with("ds1 is removed; stop it. What it had of files is lost"), "{said}");

    let error = read(&client, "big", 4 * MIB).await.unwrap_err();
    assert!(format!("{error:?}").contains("ERR_IO"), "{error:?}");
    assert!(cut(&client, "cut", 1 << 20).await.is_err());
    let handle = client.lookup_path("cut").await.unwrap().fh;
    let all = nfs_rs::write_all(&*client, handle, 0, Bytes::from(vec![1; 3 * MIB]));
    assert!(tokio::time::timeout(AT_ONCE, all).await.expect("an answer, not silence").is_err());
    // Files without data there are not lost, and stay available.
    read(&client, "small", 1).await.unwrap();
    for name in ["one", "two", "three"] {
        match concerned.contains(&format!("/{name}")) {
            true => assert!(read(&client, name, 1).await.is_err()),
            false => {
                read(&client, name, 1).await.unwrap();
                let handle = client.lookup_path(name).await.unwrap().fh;
                for at in [MIB, 2 * MIB] {
                    let grown = client.write(handle.clone(), at as u64, Bytes::from(vec![7; 100])).await;
                    assert!(grown.is_ok(), "its empty columns are elsewhere now: {grown:?}");
                }
                client.commit(handle, 0, 0).await.unwrap();
            }
        }
    }
    assert_eq!(files_on(&cluster, "ds1"), concerned);

    // It is in no list any more; its deferred operations ended; the orphan scan runs on the others.
    assert_eq!(servers(&cluster), ["ds0", "ds2"]);
    assert!(!cluster.ask(0, &["node", "list"]).unwrap().contains("ds1"));
    until("no work is left", || work() == 0);
    let cleaned = cluster.ask(0, &["clean"]).unwrap();
    assert!(cleaned.ends_with("0 without a file removed"), "{cleaned}");
    for name in ["after", "after2", "after3"] {
        write(&client, name, 4 * MIB).await.unwrap();
        read(&client, name, 4 * MIB).await.unwrap();
    }
    client.remove_path("big").await.unwrap();
    until("its objects elsewhere are gone", || work() == 0);

    // Replace it under the same name and address, with an empty disk.
    let text = std::fs::read_to_string(cluster.file("ds1.toml")).unwrap();
    let text = text.replace("/ds1\"", "/ds1-new\"").replace("/target1\"", "/target1-new\"");
    std::fs::write(cluster.file("ds1.toml"), text).unwrap();
    let _ = std::fs::remove_file(cluster.file("ds1.log"));
    cluster.start_data_server(1);
    until("it serves", || servers(&cluster) == ["ds0", "ds1", "ds2"]);
    until("it gets files", || {
        json(&cluster, &["status", "--json"])["data_servers"][1]["targets"][0]["state"] == "ok"
    });
    write(&client, "again", 4 * MIB).await.unwrap();
    assert_eq!(files_on(&cluster, "ds1"), ["/again"]);
    let why = cluster.ask(0, &["node", "undrain", "ds1"]).unwrap();
    assert_eq!(why, "ds1 takes new files", "the one that is there is meant");
    assert_eq!(cluster.ask(0, &["node", "remove", "ds1"]).unwrap_err().lines().count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_declared_lost_is_an_error_at_once_and_comes_back_when_it_is_found() {
    let mut cluster = without_copies(Cluster::start(1, 2));
    let client = mount3(&cluster).await;
    write(&client, "f", 2 * MIB).await.unwrap();
    write(&client, "cut", 2 * MIB).await.unwrap();
    cluster.data_servers[1] = None;
    let place = format!("ds1:{}", cluster.file("target1").display());
    let state = |cluster: &Cluster, place: &str| {
        let targets = json(cluster, &["target", "list", "--json"]);
        let all = targets.as_array().unwrap().clone();
        let path = place.split_once(':').unwrap().1.to_owned();
        all.into_iter().find(|t| t["path"] == path.as_str()).map(|t| t["state"].as_str().unwrap().to_owned())
    };
    until("it is away", || state(&cluster, &place).as_deref() == Some("away"));
    // A truncation waits for it; its client retries meanwhile.
    let asked = tokio::spawn({
        let client = Arc::clone(&client);
        async move { cut(&client, "cut", 100).await }
    });
    until("a cut waits", || json(&cluster, &["status", "--json"])["deferred_ops"] == 1);
    let id = json(&cluster, &["target", "list", "--json"]);
    let id = id.as_array().unwrap().iter().find(|t| t["state"] == "away").unwrap()["id"].clone();
    let said = cluster.ask(0, &["target", "lost", &place]).unwrap();
    assert!(said.contains("is lost: reading what files had there is an error from now on"), "{said}");
    assert!(asked.await.unwrap().is_err());
    assert!(read(&client, "f", 2 * MIB).await.is_err() && read(&client, "cut", 1).await.is_err());
    assert_eq!(json(&cluster, &["status", "--json"])["deferred_ops"], 0);
    assert!(files_on(&cluster, id.as_str().unwrap()).contains(&"/f".to_owned()));
    assert!(
        cluster.ask(0, &["target", "lost", "0123456789abcdef"]).unwrap_err().contains("no target is called")
    );

    // Use the name with which it was declared lost.
    cluster.ask(0, &["target", "found", &place]).unwrap();
    let _ = std::fs::remove_file(cluster.file("ds1.log"));
    cluster.start_data_server(1);
    until("it is used again", || state(&cluster, &place).as_deref() == Some("in use"));
    until("the cut is done", || json(&cluster, &["status", "--json"])["deferred_ops"] == 0);
    read(&client, "f", 2 * MIB).await.unwrap();
    read(&client, "cut", 1).await.unwrap();
}

/// Writes files until one has data on data server `n`: one whose heartbeat was late gets none. Returns its name.
async fn written_on(cluster: &Cluster, client: &Client, n: usize) -> String {
    for attempt in 0..20 {
        let name = format!("on-ds{n}-{attempt}");
        write(client, &name, 3 * MIB).await.unwrap();
        if files_on(cluster, &format!("ds{n}")).contains(&format!("/{name}")) {
            return name;
        }
    }
    panic!("no file has data on ds{n}");
}

/// A stopped process answers nothing, but its kernel acknowledges segments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_for_a_data_server_that_hangs_ends_when_nothing_waits_for_it_any_more() {
    let cluster = without_copies(Cluster::start(1, 3));
    let client = mount3(&cluster).await;
    let mds = cluster.metaservers[0].0;
    let path = format!("ds1:{}", cluster.file("target1").display());
    for (hangs, verb) in
        [(1, ["target", "lost", path.as_str()].as_slice()), (2, &["node", "remove", "ds2", "--force"])]
    {
        let name = written_on(&cluster, &client, hangs).await;
        let server = cluster.data_servers[hangs].as_ref().unwrap();
        server.signal(Signal::STOP);
        let reading = tokio::spawn({
            let client = Arc::clone(&client);
            async move { read(&client, &name, 3 * MIB).await }
        });
        until("a call waits", || metric(mds, "heorot_calls_in_flight") > 0.0);
        cluster.ask(0, verb).unwrap();
        let error = reading.await.unwrap().unwrap_err();
        assert!(format!("{error:?}").contains("ERR_IO"), "{error:?}");
    }
    // The call did not end by its own limit of 20 s, which would be in the log.
    let log = cluster.metaservers[0].1.as_ref().unwrap().log();
    assert!(!log.contains("READ"), "{log}");
}

/// ds0 takes no new files at first, ds1 to ds3 have room, ds4 to ds6 are full, and ds7 has
/// little room, then none, and then is mounted read-only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_and_read_only_targets_get_no_new_files_and_those_that_are_placed_there_go_elsewhere() {
    let mut cluster = without_copies(Cluster::start(1, 4));
    // A data server keeps a reserve of 128 MiB on each disk.
    let mut disks = Vec::new();
    for n in 4..8 {
        let place = cluster.file(&format!("target{n}"));
        disks.push(if n == 7 { SmallDisk::ext4(&place, 230) } else { SmallDisk::mount(&place, "129m") });
        cluster.add_data_server(n);
    }
    until("all are there", || servers(&cluster).len() == 8);
    cluster.ask(0, &["node", "drain", "ds0"]).unwrap();
    let client = mount3(&cluster).await;
    for n in 0..6 {
        write(&client, &format!("f{n}"), 8 * MIB).await.unwrap_or_else(|e| panic!("f{n}: {e}"));
    }
    for (n, files) in [(0, 0), (4, 0), (5, 0), (6, 0), (1, 6), (7, 6)] {
        assert_eq!(files_on(&cluster, &format!("ds{n}")).len(), files, "columns on ds{n}");
    }

    // Files that are created while ds7 is healthy, and have no data on it yet.
    let begin = async |name: &str| {
        let file = client.create_path(name, Some(0o644)).await.unwrap().fh;
        fill(&client, &file, 200 << 10).await.unwrap();
        file
    };
    let (full, read_only) = (begin("full").await, begin("read-only").await);
    cluster.ask(0, &["node", "undrain", "ds0"]).unwrap();
    // Orphan scans pass while columns are about to come to other targets.
    let scans = Scans::start(cluster.metaservers[0].0);
    let place = disks[3].0.join("other-program");
    let filler = std::fs::File::create(&place).unwrap();
    let room = rustix::fs::statvfs(&disks[3].0).unwrap();
    rustix::fs::fallocate(
        &filler,
        rustix::fs::FallocateFlags::empty(),
        0,
        room.f_bavail * room.f_frsize - MIB as u64,
    )
    .unwrap();
    fill(&client, &full, 8 * MIB).await.unwrap();
    drop(filler);
    std::fs::remove_file(place).unwrap();
    let looked = cluster.ask(0, &["clean"]).unwrap();
    assert!(looked.contains("objects seen") && !looked.contains("not cleaned"), "{looked}");
    // A scan that syncs a directory at that moment would get EIO, and the target would fail.
    drop(scans);
    disks[3].read_only();
    let scans = Scans::start(cluster.metaservers[0].0);
    fill(&client, &read_only, 8 * MIB).await.unwrap();
    for n in 6..10 {
        write(&client, &format!("f{n}"), 8 * MIB).await.unwrap_or_else(|e| panic!("f{n}: {e}"));
    }
    drop(scans);
    let all = (0..10).map(|n| format!("f{n}")).chain(["full".into(), "read-only".into()]);
    for name in all {
        read(&client, &name, 8 * MIB).await.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    assert_eq!(files_on(&cluster, "ds7"), ["/f0", "/f1", "/f2", "/f3", "/f4", "/f5"]);
    assert!(files_on(&cluster, "ds0").contains(&"/full".to_owned()));
}

/// Orphan scans, one after the other, until this is dropped.
struct Scans(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Scans {
    fn start(ip: Ipv4Addr) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ends);
        let scans = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                let said = ask(ip, &["clean"]).unwrap_or_else(|why| why);
                assert!(said.contains("objects seen") || said.contains("ReadOnly"), "{said}");
            }
        });
        Self(ends, Some(scans))
    }
}

impl Drop for Scans {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let ended = self.1.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "an orphan scan failed");
    }
}

/// Objects below a directory: names, and true for those with data.
fn objects(dir: &Path) -> BTreeMap<String, bool> {
    let below = |dir: std::fs::DirEntry| std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap);
    let all = std::fs::read_dir(dir).unwrap().map(Result::unwrap).flat_map(below);
    let object = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len() > 0)
    };
    all.map(object).filter(|(name, _)| !name.ends_with(".sums")).collect()
}

/// Files with two copies: ds3 is full. Columns without data go to chains without it, and so do new files.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_member_of_a_chain_gets_no_new_data_and_columns_that_are_placed_there_go_elsewhere() {
    let mut cluster = Cluster::start(1, 3);
    let disk = SmallDisk::mount(&cluster.file("target3"), "260m");
    cluster.add_data_server(3);
    until("all are there", || servers(&cluster).len() == 4);
    cluster.ask(0, &["stripe", "set", "/", "--copies", "2"]).unwrap();
    cluster.ask(0, &["set", "rebalance", "false"]).unwrap();
    let chains = |state: &str| json(&cluster, &["status", "--json"])["chains"][state].as_u64().unwrap();
    until("chains with it", || chains("count") >= 100);
    let client = mount3(&cluster).await;
    // With data in the first of four columns, on a chain without ds3, and objects of a column at ds3.
    let mut begun = Vec::new();
    for n in 0..12 {
        let file = client.create_path(&format!("begun{n}"), Some(0o644)).await.unwrap().fh;
        fill(&client, &file, 200 << 10).await.unwrap();
        begun.push((format!("/begun{n}"), file));
    }
    let before = objects(&disk.0.join("objects"));
    let mut without_data = Vec::new();
    for (name, file) in begun {
        let inode = client.getattr(file.clone()).await.unwrap().fileid;
        let is_of_file = |object: &str| object.contains(&format!(".{inode:016x}."));
        if before.iter().all(|(object, has_data)| !has_data || !is_of_file(object)) {
            without_data.push((name, file));
        }
    }
    assert!(!without_data.is_empty() && !before.is_empty());
    // The data server starts anew: it knows of no room any more.
    cluster.data_servers[3] = None;
    let filler = std::fs::File::create(disk.0.join("other-program")).unwrap();
    let room = rustix::fs::statvfs(&disk.0).unwrap();
    let len = room.f_bavail * room.f_frsize - (128 << 20);
    rustix::fs::fallocate(&filler, rustix::fs::FallocateFlags::empty(), 0, len).unwrap();
    let _ = std::fs::remove_file(cluster.file("ds3.log"));
    cluster.start_data_server(3);
    let is_whole = |cluster: &Cluster| {
        let status = json(cluster, &["status", "--json"]);
        let states = ["refilling", "incomplete", "waiting"];
        states.iter().all(|state| status["chains"][state] == 0)
            && status["data_servers"][3]["targets"][0]["state"] == "full"
    };
    // Its report may come before its chains know of the new process.
    tokio::time::sleep(Duration::from_secs(2)).await;
    until("the full member is in its chains", || is_whole(&cluster));
    for (name, file) in &without_data {
        fill(&client, file, 8 * MIB).await.unwrap_or_else(|e| panic!("{name}: {e:?}"));
    }
    for n in 0..6 {
        write(&client, &format!("new{n}"), 8 * MIB).await.unwrap_or_else(|e| panic!("new{n}: {e}"));
    }
    let with_data = |objects: BTreeMap<String, bool>| objects.into_iter().filter(|(_, has_data)| *has_data);
    assert!(with_data(objects(&disk.0.join("objects"))).eq(with_data(before)), "new data at ds3");
    for (name, _) in &without_data {
        read(&client, &name[1..], 8 * MIB).await.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

/// A file system becomes read-only under data that are not synced yet, as ext4 does at an error of its disk: the
/// sync fails, the data server's log tells what to do, and `heorot status` names the target.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_that_fails_is_an_error_in_the_log_and_status_names_the_target() {
    let mut cluster = Cluster::start(1, 0);
    let disk = SmallDisk::ext4(&cluster.file("target0"), 230);
    cluster.add_data_server(0);
    until("it is there", || servers(&cluster) == ["ds0"]);
    let client = mount3(&cluster).await;
    let file = client.create_path("f", Some(0o644)).await.unwrap().fh;
    fill(&client, &file, 200 << 10).await.unwrap();
    // Without COMMIT, which `write_all` would send.
    client.write(file.clone(), 200 << 10, Bytes::from(vec![7; MIB])).await.unwrap();
    disk.read_only();
    client.commit(file, 0, 0).await.unwrap_err();

    let log = cluster.data_servers[0].as_ref().unwrap().log();
    let line = log.lines().find(|line| line.contains("sync object failed"));
    let line = line.unwrap_or_else(|| panic!("no line of the sync: {log}"));
    assert!(line.contains(" ERROR ") && line.contains("Check the target's disk (dmesg, smartctl)"), "{line}");
    assert!(line.contains(disk.0.to_str().unwrap()), "{line}");
    let finding = format!("target {} of ds0 is read-only", disk.0.display());
    until("status names it", || cluster.ask(0, &["status"]).unwrap().contains(&finding));
}
