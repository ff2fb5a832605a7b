//! Backup during client load: the restore has everything in it.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::TryStreamExt;

use crate::servers::{ADMIN_PORT, Client, Cluster, PORT, Process, ask, mount, own_ip, run, until};

const FILES: usize = 60;
/// Sizes of files: some have inline data, some have objects.
const SIZES: [usize; 3] = [0, 900, 150 << 10];

pub fn up(dir: &Path, ip: Ipv4Addr) -> Process {
    let (listen, admin, data) =
        (format!("{ip}:{PORT}"), format!("{ip}:{ADMIN_PORT}"), dir.display().to_string());
    let args = ["up", "--data", &data, "--data-servers", "2", "--listen", &listen, "--admin", &admin];
    let log = dir.with_extension("log");
    let _ = std::fs::remove_file(&log);
    let mut process = Process::start(&args, &log);
    process.wait_for_log("ready\n");
    process
}

pub async fn write(client: &Client, path: &str, data: Vec<u8>) {
    let file = client.create_path(path, Some(0o640)).await.unwrap_or_else(|e| panic!("create {path}: {e}"));
    nfs_rs::write_all(&**client, file.fh.clone(), 0, Bytes::from(data)).await.unwrap();
    client.close(file.fh).await.unwrap();
}

pub fn content(n: usize) -> Vec<u8> {
    (0..SIZES[n % SIZES.len()]).map(|at| (at * 7 + n) as u8).collect()
}

/// Names and attributes of the tree below `dir`, as text.
async fn tree(client: &Client, dir: &str) -> Vec<String> {
    let handle = client.lookup_path(dir).await.unwrap().fh;
    let mut entries: Vec<_> = client.readdirplus(handle).await.try_collect::<Vec<_>>().await.unwrap();
    entries.sort_by(|a, b| a.file_name.cmp(&b.file_name));
    let mut all = vec![];
    for entry in entries {
        let path = format!("{dir}/{}", entry.file_name);
        let attributes = client.getattr_path(&path).await.unwrap();
        all.push(format!("{path}: {attributes:?}"));
    }
    all
}

/// A volume, its snapshot, and a clone of that.
const VOLUMES: [&str; 3] = ["vol", "vol/.snapshot/s", "clone"];

/// Changes the beginning of a file, which may be shared.
pub async fn overwrite(client: &Client, path: &str) {
    let file =
        client.open_path(path, nfs_rs::OPEN_WRITE).await.unwrap_or_else(|e| panic!("open {path}: {e}"));
    nfs_rs::write_all(&**client, file.fh.clone(), 0, Bytes::from_static(b"other data")).await.unwrap();
    client.close(file.fh).await.unwrap();
}

/// Names, attributes and data of the trees below these directories.
pub async fn trees(client: &Client, dirs: &[&str]) -> Vec<(String, Vec<u8>)> {
    let mut all = vec![];
    for dir in dirs {
        for entry in tree(client, dir).await {
            let path = entry.split_once(": ").expect("a path").0.to_owned();
            all.push((entry, read(client, &path).await));
        }
    }
    all
}

pub async fn read(client: &Client, path: &str) -> Vec<u8> {
    let file =
        client.open_path(path, nfs_rs::OPEN_READ).await.unwrap_or_else(|e| panic!("open {path}: {e}")).fh;
    let mut data = vec![];
    loop {
        let more = client.read(file.clone(), data.len() as u64, 64 << 10).await.unwrap();
        if more.is_empty() {
            break;
        }
        data.extend(more);
    }
    client.close(file).await.unwrap();
    data
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_backed_up_under_load_is_there_again_with_all_names_and_attributes() {
    let (place, ip) = (tempfile::tempdir().unwrap(), own_ip());
    let dir = place.path().join("data");
    let server = up(&dir, ip);
    let client = mount(ip).await;
    client.mkdir_path("still", 0o750).await.unwrap();
    client.mkdir_path("busy", 0o755).await.unwrap();
    for n in 0..FILES {
        write(&client, &format!("still/f{n:03}"), content(n)).await;
    }
    client.symlink_path("f000", "still/link").await.unwrap();
    let before = tree(&client, "still").await;
    assert_eq!(before.len(), FILES + 1);

    // A volume with a limit, a snapshot, and a clone of it; each of the three has a file of its own data.
    ask(ip, &["volume", "create", "/vol"]).unwrap();
    ask(ip, &["quota", "set", "/vol", "--files", "1000"]).unwrap();
    for n in 0..4 {
        write(&client, &format!("vol/f{n}"), content(n + 1)).await;
    }
    ask(ip, &["snapshot", "create", "/vol@s"]).unwrap();
    ask(ip, &["volume", "clone", "/vol@s", "/clone"]).unwrap();
    overwrite(&client, "vol/f1").await;
    overwrite(&client, "clone/f3").await;
    client.remove_path("clone/f0").await.unwrap();
    let volumes = trees(&client, &VOLUMES).await;
    let kept = |ip| {
        ["quota report /vol", "quota report /clone", "snapshot list --json"].map(|question| {
            let words: Vec<&str> = question.split(' ').collect();
            ask(ip, &words).unwrap()
        })
    };
    let kept_before = kept(ip);

    // An open file without a name must be gone after the restore, and its objects too.
    let open = client.create_path("unlinked", Some(0o600)).await.unwrap();
    client.remove_path("unlinked").await.unwrap();
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load = tokio::spawn({
        let (stop, count, client) = (Arc::clone(&stop), Arc::clone(&count), mount(ip).await);
        async move {
            while !stop.load(Ordering::Relaxed) {
                let n = count.load(Ordering::Relaxed);
                client.mkdir_path(&format!("busy/d{n}"), 0o700).await.unwrap();
                count.fetch_add(1, Ordering::Release);
            }
            client.umount().await.unwrap();
        }
    });
    let file = place.path().join("backup");
    let at_least = count.load(Ordering::Acquire);
    let said = tokio::task::spawn_blocking({
        let file = file.display().to_string();
        move || ask(ip, &["backup", &file])
    });
    let said = said.await.unwrap().unwrap();
    let at_most = count.load(Ordering::Acquire) + 1;
    assert!(said.contains("needs the cluster's secret"), "{said}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    stop.store(true, Ordering::Relaxed);
    load.await.unwrap();
    // Written after the backup: not in it.
    write(&client, "still/later", content(1)).await;
    // What was shared then is copied before it is written.
    overwrite(&client, "clone/f1").await;
    client.close(open.fh).await.unwrap();
    client.umount().await.unwrap();
    assert_eq!(server.stop().code(), Some(0));

    let (secret, restored) = (dir.join("secret"), place.path().join("restored"));
    let restore = |file: &Path, to: &Path, more: &[&str]| {
        let words = [
            "restore",
            file.to_str().unwrap(),
            to.to_str().unwrap(),
            "--secret-file",
            secret.to_str().unwrap(),
        ];
        run(&[&words, more].concat())
    };
    let said = restore(&file, &restored, &[]).unwrap();
    assert!(said.contains("must mount again"), "{said}");
    let again = restore(&file, &restored, &[]).unwrap_err();
    assert!(again.contains("belongs to cluster") && again.ends_with("name an empty directory"), "{again}");
    std::fs::remove_dir_all(dir.join("mds")).unwrap();
    std::fs::rename(&restored, dir.join("mds")).unwrap();

    let server = up(&dir, ip);
    // The data servers obey the old group until their operator adopts the restored one.
    until("both data servers are adopted and have registered", || {
        let _ = run(&["ds", "adopt", "--admin", dir.to_str().unwrap()]);
        let status = ask(ip, &["status", "--json"]).unwrap_or_default();
        let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
        let targets = |server: &serde_json::Value| server["targets"].as_array().cloned().unwrap_or_default();
        let servers = status["data_servers"].as_array().cloned().unwrap_or_default();
        let all: Vec<_> = servers.iter().flat_map(targets).collect();
        all.len() == 2 && all.iter().all(|target| target["state"] == "ok")
    });
    let client = mount(ip).await;
    assert_eq!(tree(&client, "still").await, before);
    for n in 0..FILES {
        let data = read(&client, &format!("still/f{n:03}")).await;
        assert!(data == content(n), "f{n:03}: {} bytes", data.len());
    }
    assert_eq!(trees(&client, &VOLUMES).await, volumes);
    assert_eq!(kept(ip), kept_before);
    overwrite(&client, "clone/f1").await;
    let busy = tree(&client, "busy").await.len();
    assert!((at_least..=at_most).contains(&busy), "{at_least} <= {busy} <= {at_most}");
    let nodes = ask(ip, &["node", "list"]).unwrap();
    assert!(nodes.contains("leader"), "{nodes}");
    // New files must not collide with objects that the old cluster made under the same inode ids.
    write(&client, "still/new", content(2)).await;
    client.umount().await.unwrap();
    assert_eq!(server.stop().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metaserver_that_joins_a_restored_one_has_all_also_when_it_leads() {
    let mut cluster = Cluster::start(1, 0);
    let client = mount(cluster.metaservers[0].0).await;
    client.mkdir_path("d", 0o750).await.unwrap();
    for n in 0..20 {
        client.mkdir_path(&format!("d/sub{n}"), 0o700).await.unwrap();
        client.symlink_path("sub0", &format!("d/link{n}")).await.unwrap();
    }
    let before = tree(&client, "d").await;
    client.umount().await.unwrap();
    let name = |file: &str| cluster.file(file).display().to_string();
    let (backup, dir, secret) = (name("backup"), name("mds0"), name("secret"));
    cluster.ask(0, &["backup", &backup]).unwrap();
    cluster.stop_metaserver(0);
    std::fs::remove_dir_all(&dir).unwrap();
    run(&["restore", &backup, &dir, "--secret-file", &secret]).unwrap();

    cluster.start_metaserver(0);
    cluster.add_metaserver();
    for leader in ["mds0", "mds1"] {
        cluster.ask(0, &["leader", leader]).unwrap();
        for n in 0..2 {
            let client = mount(cluster.metaservers[n].0).await;
            assert_eq!(tree(&client, "d").await, before, "at mds{n}, {leader} leads");
            client.umount().await.unwrap();
        }
    }
    // Restart the first metaserver: the other one has all metadata.
    cluster.stop_metaserver(0);
    cluster.start_metaserver(0);
    let client = mount(cluster.metaservers[1].0).await;
    client.mkdir_path("d/later", 0o700).await.unwrap();
    assert_eq!(tree(&client, "d").await.len(), before.len() + 1);
    client.umount().await.unwrap();
}

#[test]
fn a_backup_that_is_cut_short_altered_or_of_another_cluster_is_refused_in_one_line() {
    let (place, ip) = (tempfile::tempdir().unwrap(), own_ip());
    let dir = place.path().join("data");
    let server = up(&dir, ip);
    let file = place.path().join("backup");
    let name = file.to_str().unwrap();
    ask(ip, &["backup", name]).unwrap();
    // The same backup through a pipe.
    let piped = std::process::Command::new(env!("CARGO_BIN_EXE_heorot"))
        .args(["backup", "-", "--admin", dir.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(piped.status.success() && piped.stderr.is_empty(), "{}", String::from_utf8_lossy(&piped.stderr));
    let (copy, restored) = (place.path().join("piped"), place.path().join("of-the-pipe"));
    std::fs::write(&copy, piped.stdout).unwrap();
    let secret = dir.join("secret");
    let words = [&copy, &restored, &secret].map(|path| path.to_str().unwrap());
    run(&["restore", words[0], words[1], "--secret-file", words[2]]).unwrap();
    assert_eq!(server.stop().code(), Some(0));
    let other = place.path().join("other");
    std::fs::write(&other, "ab".repeat(32)).unwrap();
    let (secret, to) = (dir.join("secret"), place.path().join("restored"));
    let restore = |secret: &Path, more: &[&str]| {
        let words = ["restore", name, to.to_str().unwrap(), "--secret-file", secret.to_str().unwrap()];
        run(&[&words, more].concat())
    };
    let whole = std::fs::read(&file).unwrap();
    let mut altered = whole.clone();
    altered[whole.len() / 2] ^= 1;
    for (bytes, why) in [
        (&whole[..whole.len() - 1], "it is cut short: take another backup, or copy it again"),
        (&altered, "it is damaged: take another backup, or copy it again"),
        (b"something that somebody else wrote", "it is no backup that this version of heorot knows"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(restore(&secret, &[]).unwrap_err(), format!("heorot: {name}: {why}"));
        assert!(!to.exists(), "nothing is made");
    }
    std::fs::write(&file, &whole).unwrap();
    let why = restore(&other, &[]).unwrap_err();
    assert!(why.contains("the backup is of cluster") && why.contains("--other-secret"), "{why}");
    std::fs::create_dir(&to).unwrap();
    std::fs::write(to.join("restoring"), "").unwrap();
    let why = restore(&secret, &[]).unwrap_err();
    assert!(why.ends_with("a restore into it was cut short: empty it, and restore again"), "{why}");
    std::fs::remove_dir_all(&to).unwrap();
    restore(&other, &["--other-secret"]).unwrap();
    let no_admin = ask(own_ip(), &["backup", name]).unwrap_err();
    assert!(no_admin.contains("no backup: /no-server-at/"), "{no_admin}");
    assert_eq!(std::fs::read(&file).unwrap(), whole, "the one that was there stays");
}
